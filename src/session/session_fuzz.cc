// A sequence of frames from a peer, of any kind and content: the session refuses what is wrong and never writes outside the places
// that it was given. The input is cut into frames of [kind, sequence step, flags, body bytes, payload bytes, body...].
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "session/session.h"

namespace {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  std::uint8_t next() { return empty() ? 0 : data_[at_++]; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  Input input(data, size);
  const TimePoint now = TimePoint{} + std::chrono::hours(1);
  session::Session session(now, std::chrono::seconds(10));
  if (!session.on_attached(now, 0).ok()) std::abort();
  // Something of our own is under way, so that acknowledgements mean something.
  const std::vector<std::byte> own(64);
  const auto slot = session.outbox().add({.payload_bytes = own.size()}, own, 1);
  for (std::int64_t offset = 0; offset < 64; offset += 16)
    static_cast<void>(session.chunk(now, 1, session.outbox().take(slot, {offset}, {16})));
  session.outbox().on_sent(4);

  std::vector<std::vector<std::byte>> places;
  int delivered = 0;
  while (!input.empty()) {
    wire::FrameHeader header;
    header.kind = static_cast<wire::FrameKind>(input.next() % 7);
    header.sequence = session.received() + 1 + input.next() % 4 - 2;
    header.acknowledged = input.next() % 6;
    // A chunk that could be right, with some bytes changed.
    wire::ChunkBody chunk{.message = input.next(), .offset = input.next(), .head = {.layer = {1}, .payload_bytes = input.next()}};
    std::vector<std::byte> body(wire::kChunkBodyBytes);
    wire::encode(chunk, std::span<std::byte, wire::kChunkBodyBytes>(body));
    if (const auto change = input.next(); change % 4 == 0) body[change % body.size()] ^= static_cast<std::byte>(input.next());
    if (const auto length = input.next(); length % 8 == 0) body.resize(length % wire::kMaxBody);
    header.payload_bytes = input.next();
    const bool is_chunk = header.kind == wire::FrameKind::kChunk;
    if (header.payload_bytes > 0 && is_chunk) {
      const auto arrival = session.on_chunk_head(header, body);
      if (!arrival.ok()) continue;  // the connection would close
      auto place = arrival->place;
      if (arrival->kind == session::Inbox::Arrival::Kind::kBegins) {
        if (arrival->head.payload_bytes > 4096) return 0;  // the application would refuse it
        // Every third is kept by the session.
        const bool kept = arrival->head.payload_bytes % 3 == 0;
        place = session.begin(arrival->head, kept ? std::span<std::byte>() : places.emplace_back(arrival->head.payload_bytes),
                              header.payload_bytes);
      } else if (arrival->kind == session::Inbox::Arrival::Kind::kContinues) {
        place = session.place_of(*arrival, header.payload_bytes);
      }
      if (arrival->kind != session::Inbox::Arrival::Kind::kDuplicate) {
        if (place.size() != header.payload_bytes) std::abort();
        for (std::byte& byte : place) byte = std::byte{1};  // the address sanitizer judges
      }
    } else if (!is_chunk) {
      header.payload_bytes = 0;
    }
    const std::uint64_t before = session.received();
    const auto event = session.on_frame(now, header, body);
    if (session.received() > before + 1) std::abort();
    if (event.ok() && event->kind == session::Session::Event::Kind::kMessage && event->payload.size() != event->head.payload_bytes)
      std::abort();
    session.forget();
    while (const auto released = session.outbox().release())
      delivered += released->message == session::Outbox::Released::Message::kDelivered ? 1 : 0;
  }
  if (delivered > 1) std::abort();
  return 0;
}
