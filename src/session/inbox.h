// What one session has received: chunks strictly in the order of their numbers, each once, put together to messages. Pure; owned by
// a Session.
//
// A chunk that was received before (the peer could not know, its connection was cut) is a duplicate: its message may be consumed
// already, so it must not be written anywhere. A chunk whose payload turns out damaged was examined but is never accepted; it comes
// again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "wire/message.h"

namespace paceline::session {

class Inbox {
 public:
  // Messages of one session that are there in part: a message is interrupted only by more urgent ones, so there are at most as many
  // as layers. More than this is not a peer of this protocol.
  static constexpr std::size_t kMostPartial = 65'536;

  struct Arrival {
    enum class Kind {
      kDuplicate,  // drop it
      kBegins,     // first chunk of a message; one with a payload needs begin() before accept()
      kContinues,  // belongs at `place`
    };
    Kind kind = Kind::kDuplicate;
    wire::MessageHead head;
    std::span<std::byte> place;  // empty when the message is kept here: then place_of()
    std::size_t index = 0;       // kContinues: for Inbox itself
  };
  struct Accepted {
    enum class Kind { kDuplicate, kPart, kMessage };
    Kind kind = Kind::kDuplicate;
    wire::MessageHead head;
    std::span<std::byte> payload;  // kMessage: all of it; what was kept here is valid until forget()
  };

  // What a chunk is; changes nothing. Errors: kCorrupt for a gap in the numbers and for chunks that contradict each other.
  Result<Arrival> examine(std::uint64_t sequence, std::span<const std::byte> body, std::size_t payload_bytes) const;
  // The place of the message whose first chunk was examined; empty: it is kept here, in memory that grows as it comes. Returns the
  // place of that chunk.
  std::span<std::byte> begin(const wire::MessageHead& head, std::span<std::byte> place, std::size_t payload_bytes);
  // The place of a chunk that was examined and continues its message.
  std::span<std::byte> place_of(const Arrival& arrival, std::size_t payload_bytes);
  // The chunk is there, whole and undamaged.
  Result<Accepted> accept(std::uint64_t sequence, std::span<const std::byte> body, std::size_t payload_bytes);

  // The message accepted last has been used.
  void forget() {
    if (!taken_.empty()) taken_ = {};
  }

  std::uint64_t received() const { return received_; }  // all chunks up to this one

 private:
  struct Partial {
    std::uint64_t number = 0;
    wire::MessageHead head;
    std::span<std::byte> place;
    std::uint64_t next = 0;       // offset of the next chunk
    std::vector<std::byte> kept;  // what has come, when no place was given
  };
  const Partial* find(std::uint64_t number) const;

  std::uint64_t received_ = 0;
  std::uint64_t begun_ = 0;       // messages
  std::vector<std::byte> taken_;  // the message kept here that was accepted last
  std::vector<Partial> partial_;  // a few; the latest are asked for most
};

}  // namespace paceline::session
