#include "paramserver/service/told_order.h"

#include <utility>

#include "wire/messages.h"

namespace paceline::paramserver {

ToldOrder::ToldOrder(exchange::Gatehouse& house, session::Sender& sender)
    : house_(house),
      sender_(sender),
      urgency_(house.plan().layers()),
      tickets_((static_cast<std::uint64_t>(wire::Order::kKind) + 1) << 32),
      signal_(house.loop().make_signal([this] { send(); })) {}

void ToldOrder::set(std::span<const std::int32_t> order) {
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    next_.assign(order.begin(), order.end());
  }
  signal_->raise();
}

void ToldOrder::send() {
  Sent sent;
  {
    const exchange::Gatehouse::Lock lock = house_.lock();
    sent.order = std::exchange(next_, {});
  }
  if (sent.order.empty()) return;
  const Status is_one = urgency_.set(sent.order);
  PACELINE_CHECK(is_one.ok(), "{}", is_one.message());
  sent.receivers = house_.plan().servers_with_units().size();
  const std::uint64_t ticket = tickets_++;
  const auto payload = std::as_bytes(std::span(on_way_.emplace(ticket, std::move(sent)).first->second.order));
  const wire::MessageHead head = wire::head_of(wire::Order(), wire::kControlLayer, payload.size());
  for (const Rank server : house_.plan().servers_with_units()) sender_.send(server, head, payload, ticket);
}

bool ToldOrder::on_delivered(std::uint64_t ticket) {
  const auto sent = on_way_.find(ticket);
  if (sent == on_way_.end()) return false;
  if (--sent->second.receivers == 0) on_way_.erase(sent);
  return true;
}

Result<std::span<std::byte>> HeardOrders::place(Rank worker, std::uint64_t bytes) {
  const std::uint64_t expected = static_cast<std::uint64_t>(layers_) * sizeof(std::int32_t);
  if (bytes != expected) {
    return error(ErrorKind::kBadRequest, "worker {} tells an order of layers in {} bytes; those of {} layers are {}", worker.value,
                 bytes, layers_, expected);
  }
  Heard& heard = heard_.try_emplace(worker, Heard{{}, scheduling::Urgency(layers_)}).first->second;
  heard.order.resize(static_cast<std::size_t>(layers_));
  return std::as_writable_bytes(std::span(heard.order));
}

Status HeardOrders::on_order(Rank worker) {
  const auto heard = heard_.find(worker);
  if (heard == heard_.end()) return error(ErrorKind::kBadRequest, "worker {} tells an order of no layers", worker.value);
  const Status status = heard->second.urgency.set(heard->second.order);
  return status.ok() ? status : error(status.kind(), "worker {}: {}", worker.value, status.message());
}

Layer HeardOrders::urgency(Rank worker, const scheduling::Unit& unit) const {
  const auto heard = heard_.find(worker);
  return heard == heard_.end() ? unit.layer : heard->second.urgency.of(unit);
}

}  // namespace paceline::paramserver
