#include "paramserver/service/servers_state.h"

#include <algorithm>
#include <utility>

namespace paceline::paramserver {

ServersState::ServersState(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory)
    : house_(house),
      plan_(house.plan()),
      sender_(sender),
      memory_(std::move(memory)),
      signal_(house.loop().make_signal([this] { ask(); })) {}

// --- given ---

std::span<const std::byte> ServersState::initial(std::uint32_t unit) {
  const auto value = std::as_bytes(memory_.parameters(unit));
  if (memory_.state() == nullptr || memory_.state()->empty() || unit >= plan_.units().moving) return value;
  std::vector<std::byte>& both = initial_[unit];
  both.resize(value.size() + exchange::state_bytes(plan_, unit));
  std::ranges::copy(value, both.begin());
  memory_.state()->write(plan_, unit, std::span(both).subspan(value.size()));
  return both;
}

// --- asked for ---

// What was asked for in an earlier iteration, and not waited for to its end, comes first.
Result<bool> ServersState::gather(Duration limit) {
  if (memory_.state() == nullptr) return error(ErrorKind::kBadRequest, "this worker has no memory for the optimizer's state");
  exchange::Gatehouse::Lock lock = house_.lock();
  const Iteration current = house_.gates().current();
  if (asked_in_ != 0 && asked_in_ != current) {
    PACELINE_ASSIGN_OR_RETURN(const bool over, wait(lock, limit));
    if (!over) return false;
  }
  if (asked_in_ == 0) {
    asked_in_ = current;
    missing_.assign(plan_.units().moving, true);
    units_missing_ = missing_.size();
    memory_.state()->clear(plan_);
    signal_->raise();
  }
  return wait(lock, limit);
}

Result<bool> ServersState::wait(exchange::Gatehouse::Lock& lock, Duration limit) {
  const auto over = house_.wait(
      lock, limit, {exchange::Gatehouse::What::kState}, [this] { return units_missing_ == 0; }, [this] { return awaited(); });
  if (over.ok() && *over) asked_in_ = 0;
  return over;
}

std::string ServersState::awaited() const {
  const auto unit = static_cast<std::size_t>(std::ranges::find(missing_, true) - missing_.begin());
  const scheduling::Unit& planned = plan_.units().units[unit];
  return fmt::format("server {} to send the optimizer's state of {}", planned.server.value, plan_.layer_text(planned.layer));
}

void ServersState::ask() {
  for (const Rank server : plan_.servers_with_units()) sender_.send(server, wire::head_of(wire::StateAsked()), {}, 0);
}

// Locked.
bool ServersState::awaits(Rank server, std::uint32_t unit) const {
  return unit < missing_.size() && missing_[unit] && plan_.units().units[unit].server == server;
}

Result<std::span<std::byte>> ServersState::place(Rank server, const wire::State& state, std::uint64_t bytes) {
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    if (!awaits(server, state.unit) || arriving_.contains(state.unit) || bytes != exchange::state_bytes(plan_, state.unit))
      return error(ErrorKind::kBadRequest, "server {} sent the optimizer's state of unit {} in {} bytes, which nobody awaits",
                   server.value, state.unit, bytes);
  }
  std::vector<std::byte>& place = arriving_[state.unit];
  place.resize(bytes);
  return std::span(place);
}

Status ServersState::on_state(Rank server, const wire::State& state) {
  const auto arrived = arriving_.extract(state.unit);
  if (arrived.empty())
    return error(ErrorKind::kBadRequest, "server {} sent an empty optimizer state of unit {}", server.value, state.unit);
  bool all = false;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    memory_.state()->read(plan_, state.unit, arrived.mapped());
    missing_[state.unit] = false;
    all = --units_missing_ == 0;
  }
  if (all) house_.wake();
  return {};
}

}  // namespace paceline::paramserver
