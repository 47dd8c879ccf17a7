#include "runtime/local_delivery.h"

#include <cstring>

#include "base/check.h"

namespace paceline::runtime {
namespace {

using session::Role;

// Copied at once: some 20 us.
constexpr Bytes kChunk{256 << 10};
// Copying goes on for so long before the sockets are served again.
constexpr Duration kTurn = std::chrono::microseconds(500);
constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

LocalDelivery::LocalDelivery(transport::Loop& loop, Rank rank, const scheduling::EgressRules& rules, Sinks sinks,
                             std::function<void(const Status&)> refused)
    : loop_(loop),
      rank_(rank),
      sinks_(sinks),
      refused_(std::move(refused)),
      queue_({.window = kChunk * 2, .chunk = kChunk}),
      free_(kNone),
      work_signal_(loop.make_signal([this] { work(); })) {
  PACELINE_CHECK(sinks.worker != nullptr && sinks.server != nullptr, "messages between halves of which one is missing");
  queue_.set_order(scheduling::Flow::kPush, rules.pushes);
  queue_.set_order(scheduling::Flow::kReply, rules.replies);
  for (auto& lane : lanes_) {
    lane = queue_.add();
    queue_.resume(lane);
  }
}

paramserver::MessageSink& LocalDelivery::sink(Role role) const { return role == Role::kWorker ? *sinks_.worker : *sinks_.server; }

void LocalDelivery::send(Role to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  std::uint32_t slot = free_;
  if (slot == kNone) {
    slot = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_ = messages_[slot].next_free;
  }
  messages_[slot] = {.to = to, .head = head, .payload = payload, .ticket = ticket};
  queue_.on_ready({.destination = lanes_[to == Role::kWorker ? 0 : 1],
                   .layer = head.layer,
                   .size = {static_cast<std::int64_t>(payload.size())},
                   .tag = slot,
                   .flow = to == Role::kServer ? scheduling::Flow::kPush : scheduling::Flow::kReply,
                   .iteration = head.iteration});
  work_signal_->raise();
}

void LocalDelivery::work() {
  const TimePoint end = loop_.now() + kTurn;
  while (!stopped_) {
    const auto piece = queue_.take();
    if (!piece) return;
    queue_.on_acknowledged(piece->destination, piece->size);
    deliver(*piece);
    if (loop_.now() >= end) return work_signal_->raise();
  }
}

void LocalDelivery::deliver(const scheduling::EgressQueue::Chunk& piece) {
  Message& message = messages_[piece.tag];
  const session::PeerName from{message.to == Role::kWorker ? Role::kServer : Role::kWorker, rank_};
  if (piece.offset.count == 0 && !message.payload.empty()) {
    const auto place = sink(message.to).on_message_begin(from, message.head);
    if (!place.ok()) {
      stopped_ = true;
      return refused_(place.status());
    }
    message.place = *place;
  }
  const auto offset = static_cast<std::size_t>(piece.offset.count), size = static_cast<std::size_t>(piece.size.count);
  if (size > 0) std::memcpy(message.place.data() + offset, message.payload.data() + offset, size);
  if (offset + size < message.payload.size()) return;

  // What is called may send, which may move the messages.
  const Message whole = message;
  message.next_free = free_;
  free_ = static_cast<std::uint32_t>(piece.tag);
  payload_bytes_ += whole.payload.size();
  sink(whole.to).on_message(from, whole.head, whole.place);
  sink(from.role).on_delivered({whole.to, rank_}, whole.ticket);
}

}  // namespace paceline::runtime
