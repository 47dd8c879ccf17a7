#include "paramserver/service/server_carrier.h"

#include <utility>

namespace paceline::paramserver {
namespace {

scheduling::LiveProfile::Sides sides_of(const job::Plan& plan) {
  using Sides = scheduling::LiveProfile::Sides;
  return plan.options().schedule.push == scheduling::PushWhen::kInBatches ? Sides::kPullsAndPushes : Sides::kPulls;
}

}  // namespace

ServerCarrier::ServerCarrier(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory,
                             std::optional<Rank> own_server)
    : house_(house),
      plan_(house.plan()),
      worker_(house.worker()),
      sender_(sender),
      memory_(std::move(memory)),
      own_server_(own_server),
      ledger_(house.gates(), house.worker(), &house.events()),
      order_(house, sender),
      state_(house, sender, memory_),
      gradients_(plan_, memory_),
      values_(plan_, ledger_, memory_) {
  if (plan_.options().update.verdict) verdicts_.emplace(plan_);
  // At most a push and a pull of each unit are waiting.
  sends_.reserve(2 * plan_.units().units.size());
  if (plan_.options().schedule.back == scheduling::Return::kPullInBatches) {
    profile_.emplace(plan_.pulled_by_layer(own_server_), plan_.options().schedule.batching, sides_of(plan_),
                     plan_.options().message_start_up, own_server_);
    house.events().add(*profile_);
  }
  told_signal_ = house.loop().make_signal([this] { carry_told(); });
  initial_signal_ = house.loop().make_signal([this] { send_initial(); });
  done_signal_ = house.loop().make_signal([this] { send_done(); });
}

ServerCarrier::~ServerCarrier() = default;

// --- user's threads ---

void ServerCarrier::start() {
  if (worker_ == Rank{0}) initial_signal_->raise();
}

// Nothing of a schedule that pushes at the end leaves before.
void ServerCarrier::on_units_told() {
  if (plan_.options().schedule.push != scheduling::PushWhen::kAtEnd) told_signal_->raise();
}

// Where everybody has the servers' encoded initial values, worker 0 has to make the same of its own.
void ServerCarrier::on_started() {
  if (plan_.value_codec(plan_.options().first - 1).raw() || worker_ != Rank{0}) return;
  for (const scheduling::Unit& unit : plan_.units().units) values_.round(unit.id);
}

// Nobody writes to these parts of the staging area until their units have been pushed again, so the copy needs no lock. Another
// thread at the same gate waits for it.
void ServerCarrier::settle(exchange::Gatehouse::Lock& lock, scheduling::UnitRange units) {
  while (const auto unit = ledger_.take_staged(units)) {
    units.begin = *unit + 1;
    ++settling_;
    lock.unlock();
    values_.move(*unit);
    lock.lock();
    if (--settling_ == 0) house_.wake();
  }
  if (settling_ > 0) house_.wait_for_thread(lock, [this] { return settling_ == 0; });
}

// --- locked ---

std::string ServerCarrier::awaited(std::optional<std::uint32_t> unit) const {
  if (!unit) return "nothing";
  const scheduling::Unit& planned = plan_.units().units[*unit];
  return fmt::format("server {} to send the value of {} after iteration {}", planned.server.value, plan_.layer_text(planned.layer),
                     house_.gates().current() - 1);
}

std::string ServerCarrier::reading(std::uint32_t unit) const {
  const scheduling::Unit& planned = plan_.units().units[unit];
  return fmt::format("server {} to receive the gradient of {} of iteration {}", planned.server.value,
                     plan_.layer_text(planned.layer), house_.gates().current() - 1);
}

std::string ServerCarrier::awaited_verdict(Iteration iteration) const {
  const auto server = verdicts_->ledger().missing(iteration);
  return fmt::format("server {} to tell its verdict of iteration {}", server.value_or(Rank{0}).value, iteration);
}

void ServerCarrier::tell_rates(Iteration iteration, std::span<const exchange::GroupRates> rates) {
  rates_[static_cast<std::size_t>(iteration & 1)].assign(rates.begin(), rates.end());
}

std::optional<scheduling::LiveProfile::Plan> ServerCarrier::batches() const {
  return profile_ ? profile_->current() : std::nullopt;
}

// --- loop ---

void ServerCarrier::carry_told() {
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    if (!house_.failure().ok()) return;
    if (const auto round_trip = sender_.round_trip(); profile_ && round_trip) profile_->on_round_trip(*round_trip);
    step_told();
  }
  send_all();
}

// Locked.
void ServerCarrier::step_told() {
  const TimePoint now = house_.loop().now();
  for (const exchange::Gatehouse::Told& told : house_.told()) {
    if (!told.backward_done) {
      ledger_.on_complete({&told.complete, 1}, now, sends_);
      continue;
    }
    ledger_.on_backward_done(now, sends_);
    if (profile_) take_plan();
  }
  house_.told().clear();
  count_bytes();
}

// Locked. From the next iteration on.
void ServerCarrier::take_plan() {
  const auto& plan = profile_->current();
  if (!plan || std::exchange(plan_in_use_, plan->number) == plan->number) return;
  ledger_.set_batches(plan->bounds);
  if (plan->push) ledger_.set_push_batches(plan->push->bounds);
}

// Locked.
void ServerCarrier::count_bytes() { house_.account().count_bytes(gradients_.take_packed_bytes(), 0); }

void ServerCarrier::send_initial() {
  for (const scheduling::Unit& unit : plan_.units().units)
    send({.to = unit.server, .message = wire::Initial{unit.id, plan_.options().first - 1}}, state_.initial(unit.id));
}

void ServerCarrier::send_done() {
  Iteration last = 0;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    if (!house_.failure().ok()) return;
    step_told();
    last = ledger_.current() - 1;
    ledger_.on_finished();
  }
  send_all();
  for (const Rank server : plan_.servers_with_units()) sender_.send(server, wire::head_of(wire::Done{last}), {}, kNoTicket);
}

}  // namespace paceline::paramserver
