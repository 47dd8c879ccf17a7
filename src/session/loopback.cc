#include "session/loopback.h"

#include <cstring>

#include "base/check.h"
#include "session/flow.h"

namespace paceline::session {
namespace {

// Copied at once: some 20 us.
constexpr Bytes kPieceBytes{256 << 10};
// Copying goes on for so long before the sockets are served again.
constexpr Duration kTurn = std::chrono::microseconds(500);
constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

Loopback::Loopback(transport::Loop& loop, PeerId self, wire::PeerName name, EndpointHandler& handler)
    : loop_(loop),
      self_(self),
      name_(name),
      handler_(handler),
      queue_({.window = kPieceBytes * 2, .chunk = kPieceBytes}),
      lane_(queue_.add()),
      free_(kNone),
      work_signal_(loop.make_signal([this] { work(); })) {
  queue_.resume(lane_);
}

void Loopback::set_egress(const scheduling::EgressRules& rules) { queue_.set_rules(rules); }

void Loopback::send(const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (refused_) return;
  std::uint32_t slot = free_;
  if (slot == kNone) {
    slot = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_ = messages_[slot].next_free;
  }
  messages_[slot] = {.head = head, .payload = payload, .ticket = ticket};
  queue_.on_ready({.destination = lane_,
                   .layer = head.layer,
                   .size = {static_cast<std::int64_t>(payload.size())},
                   .tag = slot,
                   .flow = flow_of(channel_of(head.kind)),
                   .iteration = head.iteration});
  work_signal_->raise();
}

void Loopback::work() {
  const TimePoint end = loop_.now() + kTurn;
  while (!refused_) {
    const auto piece = queue_.take();
    if (!piece) return;
    queue_.on_acknowledged(piece->destination, piece->size);
    deliver(*piece);
    if (loop_.now() >= end) return work_signal_->raise();
  }
}

void Loopback::deliver(const scheduling::EgressQueue::Chunk& piece) {
  Message& message = messages_[piece.tag];
  if (piece.offset.count == 0 && !message.payload.empty()) {
    const auto place = handler_.on_message_begin(self_, message.head);
    if (!place.ok()) {
      refused_ = true;
      return handler_.on_peer_lost(self_, name_, place.status());
    }
    PACELINE_CHECK(place->size() == message.payload.size(), "a place of {} bytes for a payload of {}", place->size(),
                   message.payload.size());
    message.place = *place;
  }
  const auto offset = static_cast<std::size_t>(piece.offset.count), size = static_cast<std::size_t>(piece.size.count);
  if (size > 0) std::memcpy(message.place.data() + offset, message.payload.data() + offset, size);
  if (offset + size < message.payload.size()) return;

  // What is called may send, which may move the messages.
  const Message whole = message;
  message.next_free = free_;
  free_ = static_cast<std::uint32_t>(piece.tag);
  handler_.on_message(self_, whole.head, whole.place);
  handler_.on_delivered(self_, channel_of(whole.head.kind), whole.ticket);
}

}  // namespace paceline::session
