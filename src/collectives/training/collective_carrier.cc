#include "collectives/training/collective_carrier.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "collectives/exec/communicator.h"
#include "tensor/reduce.h"
#include "wire/collective.h"

namespace paceline::collectives {

using Kind = RoundLedger::Action::Kind;
using Lock = exchange::Gatehouse::Lock;

namespace {

// How long ranks may take to agree on whom they blame.
constexpr Duration kVerdictLimit = std::chrono::seconds(1);

template <typename T>
std::span<T> range(std::span<T> of, std::int64_t offset, std::int64_t elements) {
  return of.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(elements));
}

exchange::Shard shard_for(const RoundLedger& ledger, std::shared_ptr<const job::Plan> plan) {
  using Steps = exchange::Shard::Steps;
  std::vector<std::uint32_t> units(plan->units().moving);
  std::iota(units.begin(), units.end(), 0U);
  return {std::move(plan), units, ledger.updates_here() ? Steps::kHere : Steps::kElsewhere};
}

}  // namespace

CollectiveCarrier::CollectiveCarrier(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory,
                                     TrainingOptions options)
    : house_(house),
      plan_(house.plan()),
      self_(house.worker()),
      sender_(sender),
      memory_(std::move(memory)),
      options_(options),
      flags_(plan_.options().workers, plan_.options().update.verdict),
      ledger_(house.gates(), self_, options, &house.events()),
      shard_(shard_for(ledger_, house.shared_plan())),
      engine_(self_, plan_.options().workers, *this),
      planner_(std::make_shared<const Group>(world_group(self_, plan_.options().workers)),
               rules_of(options, plan_.options().workers)) {
  if (plan_.options().update.verdict) {
    verdicts_.emplace(Verdicts{exchange::VerdictLedger(plan_, {self_}), exchange::VerdictPart(plan_.table().tensors.size())});
  }
  std::size_t begin = 0;
  for (const scheduling::Unit& unit : plan_.units().units) {
    staging_begin_.push_back(begin);
    if (unit.id < plan_.units().moving) begin += static_cast<std::size_t>(flags_.staged_elements(unit));
  }
  staging_begin_.push_back(begin);
  staging_memory_.reset(new float[begin]);
  start_signal_ = house.loop().make_signal([this] { begin_start(); });
  signal_ = house.loop().make_signal([this] { carry_on(); });
}

CollectiveCarrier::~CollectiveCarrier() = default;

std::span<float> CollectiveCarrier::staged(std::uint32_t unit) const {
  return {staging_memory_.get() + staging_begin_[unit], staging_begin_[unit + 1] - staging_begin_[unit]};
}

// --- user's threads ---

Status CollectiveCarrier::take(std::span<const exchange::GateLedger::Complete> units, Iteration iteration) {
  for (const auto& [unit, unused] : units) {
    if (const Status finite = check_own(unit, unused, iteration); !finite.ok()) {
      house_.loop().post([this, finite] { house_.fail(finite); });
      return finite;
    }
    const std::span<float> to = staged(unit);
    std::ranges::copy(memory_.gradient(unit), to.begin());
    flags_.write(plan_.units(), unit, unused, self_, to);
  }
  return {};
}

std::string CollectiveCarrier::awaited_verdict(Iteration iteration) const {
  return fmt::format("the sums of all layers of iteration {}", iteration);
}

// Why this worker's gradient must not be used, naming it: once it is summed nobody knows whose it was.
Status CollectiveCarrier::check_own(std::uint32_t unit, std::uint32_t unused_parts, Iteration iteration) const {
  if (plan_.options().update.non_finite != job::NonFinitePolicy::kStop) return {};
  const std::span<const float> gradient = memory_.gradient(unit);
  if (tensor::all_finite(gradient)) return {};
  const scheduling::Unit& planned = plan_.units().units[unit];
  for (std::uint32_t i = 0; i < planned.parts; ++i) {
    if ((unused_parts >> i & 1) != 0) continue;
    const scheduling::Part& of = plan_.units().parts[planned.first_part + i];
    const auto values = range(gradient, of.offset - planned.offset, of.elements);
    const auto element = tensor::first_non_finite(values);
    if (element) return shard_.broken_gradient(self_, planned.first_part + i, iteration, *element, values[*element]);
  }
  return {};
}

// The engine knows whom the oldest operation waits for; what it says comes first.
bool CollectiveCarrier::blames(const std::string& awaited, Duration waited) {
  house_.loop().post([this, awaited, waited] {
    if (!operations_.empty()) engine_.on_stall(planner_.group().id, operations_.begin()->first, waited);
    house_.loop().run_after(kVerdictLimit, [this, awaited, waited] { house_.fail(house_.stalled(awaited, waited)); });
  });
  return true;
}

// --- loop ---

void CollectiveCarrier::begin_start() {
  {
    const Lock lock = house_.lock();
    ledger_.on_start(house_.loop().now(), actions_);
  }
  house_.wake();
  act();
}

void CollectiveCarrier::carry_on() {
  bool freed = false;
  {
    const Lock lock = house_.lock();
    if (!house_.failure().ok()) return;
    freed = !house_.told().empty();
    step_told();
    count_bytes();
  }
  if (freed) house_.wake();
  act();
}

// Locked.
void CollectiveCarrier::step_told() {
  const TimePoint now = house_.loop().now();
  for (const exchange::Gatehouse::Told& told : house_.told()) {
    if (told.backward_done) {
      ledger_.on_free(now, actions_);
    } else {
      ledger_.on_staged(told.complete, now, actions_);
    }
  }
  house_.told().clear();
}

// Locked.
void CollectiveCarrier::count_bytes() {
  house_.account().count_bytes(std::exchange(bytes_sent_, 0), std::exchange(bytes_received_, 0));
}

// Begins operations, and does one piece of work; the loop comes back for the next one.
void CollectiveCarrier::act() {
  std::swap(taken_, actions_);
  for (const RoundLedger::Action& action : taken_) {
    if (action.kind == Kind::kReduce || action.kind == Kind::kBroadcast) {
      begin(action);
      continue;
    }
    // Forward needs the first layers first.
    const auto before = [](const Work& a, const Work& b) { return a.action.unit > b.action.unit; };
    const Work work{action};
    work_.insert(std::upper_bound(work_.begin(), work_.end(), work, before), work);
  }
  taken_.clear();
  if (!held_ && work_piece()) signal_->raise();
}

void CollectiveCarrier::begin(const RoundLedger::Action& action) {
  const bool reduces = action.kind == Kind::kReduce;
  const std::span<float> buffer = reduces ? staged(action.unit) : memory_.parameters(action.unit);
  const std::int32_t workers = plan_.options().workers;
  Call call = call_of(options_, workers, reduces ? TrainingStep::kReduce : TrainingStep::kBroadcast,
                      static_cast<std::int64_t>(buffer.size()));
  if (!reduces) call.root = ledger_.broadcast_root().value;
  call.input = reduces ? buffer.data() : nullptr;
  call.output = buffer.data();
  call.priority = plan_.units().units[action.unit].layer;
  ++number_;
  operations_[number_] = action;
  engine_.start(planner_.prepare(call, planner_.choose(call), number_), [this, number = number_](const Status& status) {
    const auto operation = operations_.extract(number);
    on_done(operation.mapped(), status);
  });
}

void CollectiveCarrier::on_done(const RoundLedger::Action& action, const Status& status) {
  if (!status.ok()) return house_.fail(status);
  {
    const Lock lock = house_.lock();
    if (action.kind == Kind::kReduce)
      ledger_.on_reduced(action.unit, house_.loop().now(), actions_);
    else
      ledger_.on_broadcast(action.unit, house_.loop().now());
    count_bytes();
  }
  house_.wake();
  if (!actions_.empty()) signal_->raise();
}

// Whether a message is one of training: the operations before, one for each unit, brought the initial values. What others send of
// the first iteration may come while this rank still receives these.
bool CollectiveCarrier::counts(const wire::MessageHead& head) const {
  return head.kind == wire::MessageKind::kCollective && head.unit > plan_.units().units.size();
}

void CollectiveCarrier::send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (counts(head)) bytes_sent_ += static_cast<std::int64_t>(payload.size());
  sender_.send(to, head, payload, ticket);
}

Result<std::span<std::byte>> CollectiveCarrier::on_message_begin(Rank from, const wire::MessageHead& head) {
  if (head.kind == wire::MessageKind::kCollective) {
    if (const auto operation = operations_.find(head.unit);
        operation != operations_.end() && operation->second.kind == Kind::kBroadcast) {
      const Lock lock = house_.lock();
      ledger_.on_broadcast_begins(operation->second.unit, house_.loop().now());
    }
  }
  return engine_.on_message_begin(from, head);
}

void CollectiveCarrier::on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (counts(head)) bytes_received_ += static_cast<std::int64_t>(payload.size());
  engine_.on_message(from, head, payload);
}

void CollectiveCarrier::on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) {
  engine_.on_delivered(to, channel, ticket);
}

void CollectiveCarrier::on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) {
  engine_.on_peer_lost(peer, channel, reason);
}

}  // namespace paceline::collectives
