#include "collectives/training/collective_exchange.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "wire/collective.h"

namespace paceline::collectives {
namespace {

using Kind = RoundLedger::Action::Kind;

// How long ranks may take to agree on whom they blame.
constexpr Duration kVerdictLimit = std::chrono::seconds(1);

std::int64_t milliseconds(Duration duration) { return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count(); }

Group all_workers(Rank self, std::int32_t workers) {
  Group group;
  for (std::int32_t rank = 0; rank < workers; ++rank) group.ranks.push_back(Rank{rank});
  group.self = self.value;
  return group;
}

Updater::Role role_of(const TrainingOptions& options, Rank self, std::int32_t workers) {
  const bool updates = updates_everywhere(options.loop) || self == root_of(options, workers);
  return updates ? Updater::Role::kUpdates : Updater::Role::kNever;
}

}  // namespace

CollectiveExchange::CollectiveExchange(const std::shared_ptr<const paramserver::JobPlan>& plan, Rank self, transport::Loop& loop,
                                       paramserver::Outbox& outbox, CollectiveExchangeOptions options)
    : plan_(plan),
      self_(self),
      loop_(loop),
      outbox_(outbox),
      options_(std::move(options)),
      rules_(rules_of(options_.training, plan_->options().workers)),
      updater_(plan, role_of(options_.training, self, plan->options().workers)),
      engine_(self, plan_->options().workers, *this),
      group_(std::make_shared<const Group>(all_workers(self, plan_->options().workers))),
      gates_(plan, self, gate_rule(options_.training)),
      core_(gates_, self, options_.training),
      stall_(loop.now(), options_.stall_deadline) {
  const auto elements = static_cast<std::size_t>(plan_->units().elements);
  PACELINE_CHECK(options_.parameters.size() == elements && options_.gradients.size() == elements,
                 "the plan has {} elements, the arenas {} and {}", elements, options_.parameters.size(), options_.gradients.size());
  std::size_t begin = 0;
  for (const scheduling::Unit& unit : plan_->units().units) {
    staging_begin_.push_back(begin);
    begin += static_cast<std::size_t>(staged_elements(unit));
  }
  staging_begin_.push_back(begin);
  staging_memory_.reset(new float[begin]);
  signal_ = loop.make_signal([this] { carry_out(); });
}

CollectiveExchange::~CollectiveExchange() = default;

std::span<float> CollectiveExchange::part(std::span<float> arena, std::uint32_t unit) const {
  const scheduling::Unit& planned = plan_->units().units[unit];
  return arena.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements));
}

std::span<float> CollectiveExchange::staged(std::uint32_t unit) const {
  return {staging_memory_.get() + staging_begin_[unit], staging_begin_[unit + 1] - staging_begin_[unit]};
}

// --- training thread ---

template <typename Done>
Status CollectiveExchange::wait(std::unique_lock<std::mutex>& lock, Done done, std::optional<Layer> layer) {
  if (failure_.ok() && !done()) stall_.on_wait(loop_.now());
  while (failure_.ok() && !done()) {
    if (changed_.wait_until(lock, stall_.next_due()) == std::cv_status::no_timeout || done() || !failure_.ok()) continue;
    PACELINE_RETURN_IF_ERROR(look_for_stall(lock, describe_missing(layer)));
  }
  return failure_;
}

Status CollectiveExchange::look_for_stall(std::unique_lock<std::mutex>& lock, const std::string& awaited) {
  const TimePoint now = loop_.now();
  switch (stall_.check(now)) {
    case session::StallDetector::Verdict::kFine:
      return {};
    case session::StallDetector::Verdict::kFail: {
      // The engine knows whom the oldest operation waits for; what it says comes first.
      loop_.post([this, awaited, waited = stall_.waited(now)] {
        if (!operations_.empty()) engine_.on_stall(group_->id, operations_.begin()->first, waited);
        loop_.run_after(kVerdictLimit, [this, awaited, waited] {
          fail(error(ErrorKind::kDeadline, "worker {} waited {} ms for {}; --stall-deadline is {}", self_.value,
                     milliseconds(waited), awaited, to_text(options_.stall_deadline)));
        });
      });
      changed_.wait(lock, [&] { return !failure_.ok(); });
      return failure_;
    }
    case session::StallDetector::Verdict::kWarn: {
      const Duration waited = stall_.waited(now), median = stall_.median();
      lock.unlock();
      log::warn("worker {} has been waiting {} for {}; an iteration takes {}. It gives up after {} (--stall-deadline)", self_.value,
                to_text(waited), awaited, to_text(median), to_text(options_.stall_deadline));
      lock.lock();
      return {};
    }
  }
  return {};
}

Status CollectiveExchange::wait_open(std::optional<Layer> layer, Iteration iteration) {
  if (layer && (layer->index < 0 || layer->index >= plan_->layers())) {
    return error(ErrorKind::kBadRequest, "layer {} does not exist; the model has {}", layer->index, plan_->layers());
  }
  std::unique_lock lock(mutex_);
  if (failure_.ok() && iteration != gates_.current()) {
    return error(ErrorKind::kBadRequest, "worker {} waits for the parameters of iteration {} in iteration {}", self_.value,
                 iteration, gates_.current());
  }
  const TimePoint entered = loop_.now();
  // Who waits for everything also waits for what the others still receive from here, so that a job's figures hold all of it.
  const auto open = [&] { return layer ? gates_.open(*layer, iteration) : gates_.all_open(iteration) && core_.takes_gradients(); };
  PACELINE_RETURN_IF_ERROR(wait(lock, open, layer));
  gates_.account_gate(layer, iteration, entered, loop_.now());
  return {};
}

Status CollectiveExchange::start() {
  {
    const std::lock_guard lock(mutex_);
    core_.on_start(loop_.now(), actions_);
  }
  signal_->raise();
  return wait_open(std::nullopt, plan_->options().first);
}

// What the last iteration still sends of this rank's weights; hardly ever anything.
Status CollectiveExchange::wait_for_round(std::unique_lock<std::mutex>& lock) {
  return wait(
      lock, [&] { return core_.takes_gradients(); }, std::nullopt);
}

std::string CollectiveExchange::describe_missing(std::optional<Layer> layer) const { return core_.describe(gates_.missing(layer)); }

// Copies the units' gradients to where they are reduced. Nobody else touches these places before on_staged, so that no lock is
// needed.
Status CollectiveExchange::stage(Iteration iteration) {
  for (const auto& [unit, unused] : complete_) {
    const scheduling::Unit& planned = plan_->units().units[unit];
    const std::span<const float> gradient = part(options_.gradients, unit);
    if (const Status finite = updater_.check_own(self_, unit, unused, iteration, gradient); !finite.ok()) {
      loop_.post([this, finite] { fail(finite); });
      return finite;
    }
    const std::span<float> to = staged(unit);
    std::ranges::copy(gradient, to.begin());
    for (std::uint32_t i = 0; i < planned.parts; ++i) {
      const scheduling::Part& of = plan_->units().parts[planned.first_part + i];
      const bool used = (unused >> i & 1) == 0;
      to[gradient.size() + i] = used ? 1.0F : 0.0F;
      if (!used) std::fill_n(to.begin() + (of.offset - planned.offset), of.elements, 0.0F);
    }
  }
  return {};
}

void CollectiveExchange::on_staged(TimePoint now) {
  for (const auto& [unit, unused] : complete_) {
    if (unused != scheduling::all_parts(plan_->units().units[unit])) gates_.on_free(unit);
    core_.on_staged(unit, now, actions_);
  }
}

Status CollectiveExchange::gradient_ready(std::uint32_t tensor) {
  complete_.clear();
  Iteration iteration = 0;
  {
    std::unique_lock lock(mutex_);
    PACELINE_RETURN_IF_ERROR(wait_for_round(lock));
    PACELINE_RETURN_IF_ERROR(gates_.on_gradient(tensor, complete_));
    if (complete_.empty()) return {};
    iteration = gates_.current();
  }
  PACELINE_RETURN_IF_ERROR(stage(iteration));
  {
    const std::lock_guard lock(mutex_);
    on_staged(loop_.now());
    if (actions_.empty()) return {};
  }
  signal_->raise();
  return {};
}

Status CollectiveExchange::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  complete_.clear();
  {
    std::unique_lock lock(mutex_);
    if (failure_.ok() && iteration == gates_.current() && !gates_.all_open(iteration)) {
      // Layers that this forward did not use; their values are on the way.
      const TimePoint entered = loop_.now();
      PACELINE_RETURN_IF_ERROR(wait(
          lock, [&] { return gates_.all_open(iteration); }, std::nullopt));
      gates_.account_gate(std::nullopt, iteration, entered, loop_.now());
    }
    PACELINE_RETURN_IF_ERROR(wait_for_round(lock));
    PACELINE_RETURN_IF_ERROR(gates_.on_backward_done(iteration, unused, complete_));
  }
  PACELINE_RETURN_IF_ERROR(stage(iteration));
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = loop_.now();
    on_staged(now);
    gates_.next_iteration();
    core_.on_free(now, actions_);
    stall_.on_progress(now);
  }
  signal_->raise();
  return {};
}

Status CollectiveExchange::wait_gradients_free() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status CollectiveExchange::wait_gradients_free(Layer) { return wait_gradients_free(); }

TimePoint CollectiveExchange::opened_at(Layer layer) {
  const std::lock_guard lock(mutex_);
  return gates_.opened_at(layer);
}

// --- any thread ---

void CollectiveExchange::cancel(const Status& reason) {
  PACELINE_CHECK(!reason.ok(), "cancelled without a reason");
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = reason;
  }
  changed_.notify_all();
}

paramserver::Account CollectiveExchange::take_account() {
  const std::lock_guard lock(mutex_);
  return gates_.take_account(loop_.now());
}

// --- loop ---

void CollectiveExchange::carry_out() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    std::swap(taken_, actions_);
    gates_.count_bytes(std::exchange(bytes_sent_, 0), std::exchange(bytes_received_, 0));
  }
  for (const RoundLedger::Action& action : taken_) {
    if (action.kind == Kind::kReduce || action.kind == Kind::kBroadcast) {
      begin(action);
      continue;
    }
    // Forward needs the first layers first.
    const auto before = [](const Work& a, const Work& b) { return a.action.unit > b.action.unit; };
    const Work work{action, 0};
    work_.insert(std::upper_bound(work_.begin(), work_.end(), work, before), work);
  }
  taken_.clear();
  if (!held_ && work_piece()) signal_->raise();
}

void CollectiveExchange::release_updates() {
  held_ = false;
  signal_->raise();
}

void CollectiveExchange::begin(const RoundLedger::Action& action) {
  const bool reduces = action.kind == Kind::kReduce;
  const std::span<float> buffer = reduces ? staged(action.unit) : part(options_.parameters, action.unit);
  const std::int32_t workers = plan_->options().workers;
  Call call = call_of(options_.training, workers, reduces ? TrainingStep::kReduce : TrainingStep::kBroadcast,
                      static_cast<std::int64_t>(buffer.size()));
  if (!reduces) {
    const std::lock_guard lock(mutex_);
    call.root = core_.broadcast_root().value;
  }
  call.input = reduces ? buffer.data() : nullptr;
  call.output = buffer.data();
  call.priority = plan_->units().units[action.unit].layer;
  const Choice choice = choose(*group_, call, rules_);
  auto program = programs_.get(*group_, call, rules_, choice);
  ++number_;
  operations_[number_] = action;
  engine_.start(prepare(group_, call, choice, std::move(program), number_), [this, number = number_](const Status& status) {
    const auto operation = operations_.extract(number);
    on_done(operation.mapped(), status);
  });
}

void CollectiveExchange::on_done(const RoundLedger::Action& action, const Status& status) {
  if (!status.ok()) return fail(status);
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (action.kind == Kind::kReduce)
      core_.on_reduced(action.unit, loop_.now(), actions_);
    else
      core_.on_broadcast(action.unit, loop_.now());
    gates_.count_bytes(std::exchange(bytes_sent_, 0), std::exchange(bytes_received_, 0));
    more = !actions_.empty();
  }
  changed_.notify_all();
  if (more) signal_->raise();
}

// Does one piece of the most urgent update. False: there is none.
bool CollectiveExchange::work_piece() {
  if (work_.empty()) return false;
  Work& work = work_.back();
  const RoundLedger::Action action = work.action;
  Iteration round = 0;
  {
    const std::lock_guard lock(mutex_);
    round = core_.round();
  }
  const std::span<float> sum = staged(action.unit);
  const bool holds = plan_->holds_updates();
  if (action.kind == Kind::kInspect || !holds) {
    if (const Status mean = updater_.make_mean(action.unit, work.piece, round, sum); !mean.ok()) {
      fail(mean);
      return false;
    }
  }
  if (action.kind == Kind::kUpdate) updater_.step(action.unit, work.piece, round, sum, part(options_.parameters, action.unit));
  if (++work.piece < updater_.pieces(action.unit)) return true;
  work_.pop_back();
  bool opened = false, all = false;
  {
    const std::lock_guard lock(mutex_);
    if (action.kind == Kind::kInspect) {
      if (core_.on_inspected(actions_) == RoundLedger::Inspection::kAll && updater_.decide() == Updater::Verdict::kSkip)
        log::warn("iteration {} changes nothing: a gradient is not finite (--non-finite skip)", round);
    } else {
      core_.on_updated(action.unit, loop_.now(), actions_);
      opened = true;
      all = core_.all_updated();
    }
  }
  if (all && options_.on_updated) options_.on_updated(round);
  if (opened) changed_.notify_all();
  return true;
}

// Whether a message is one of training: the operations before, one for each unit, brought the initial values. What others send of
// the first iteration may come while this rank still receives these.
bool CollectiveExchange::counts(const wire::MessageHead& head) const {
  return head.kind == wire::MessageKind::kCollective && head.unit > plan_->units().units.size();
}

void CollectiveExchange::send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (counts(head)) bytes_sent_ += static_cast<std::int64_t>(payload.size());
  outbox_.send_to_worker(to, head, payload, ticket);
}

Result<std::span<std::byte>> CollectiveExchange::on_message_begin(const session::PeerName& from, const wire::MessageHead& head) {
  if (from.role != session::Role::kWorker)
    return error(ErrorKind::kBadRequest, "{} sent worker {} a message in a job without servers", from.text(), self_.value);
  if (head.kind == wire::MessageKind::kCollective) {
    if (const auto operation = operations_.find(head.unit);
        operation != operations_.end() && operation->second.kind == Kind::kBroadcast) {
      const std::lock_guard lock(mutex_);
      core_.on_broadcast_begins(operation->second.unit, loop_.now());
    }
  }
  return engine_.on_message_begin(from.rank, head);
}

void CollectiveExchange::on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (counts(head)) bytes_received_ += static_cast<std::int64_t>(payload.size());
  engine_.on_message(from.rank, head, payload);
}

void CollectiveExchange::on_delivered(const session::PeerName&, std::uint64_t ticket) { engine_.on_delivered(ticket); }

// An operation that needs the peer fails; one that does not may still end well, as when the job is over.
void CollectiveExchange::on_peer_lost(const session::PeerName& peer, const Status& reason) {
  if (peer.role == session::Role::kWorker) engine_.on_peer_lost(peer.rank, reason);
}

void CollectiveExchange::fail(const Status& reason) {
  cancel(reason);
  if (!std::exchange(reported_, true) && options_.on_failed) options_.on_failed(reason);
}

}  // namespace paceline::collectives
