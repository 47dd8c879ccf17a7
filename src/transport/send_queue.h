// The frames of one connection that wait to be written, and those that were written but not yet reported. A ring of its own,
// because it must not allocate once it has reached its largest length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "wire/frame.h"

namespace paceline::transport {

class SendQueue {
 public:
  // Copies the head, borrows the payload.
  void push(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket);

  bool empty() const { return written_ == size_; }  // nothing left to write
  // Pieces to write next, in order: as many frames as fit `pieces`, until `bytes` are reached. Returns how many pieces.
  std::size_t gather(std::span<iovec> pieces, std::size_t bytes) const;
  // The first `count` bytes of what gather() gave were written.
  void consumed(std::size_t count);
  // The ticket of the next wholly written frame, once each, in order.
  std::optional<std::uint64_t> take_written();

 private:
  struct Entry {
    std::array<std::byte, wire::kHeaderBytes + wire::kMaxBody> head;
    std::uint32_t head_bytes;
    std::span<const std::byte> payload;
    std::uint64_t ticket;
  };
  void grow();
  const Entry& at(std::size_t index) const { return ring_[(first_ + index) & (ring_.size() - 1)]; }

  std::vector<Entry> ring_;  // a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::size_t written_ = 0;  // of the first frames, how many are wholly written
  std::size_t offset_ = 0;   // bytes of frame `written_` that are written
};

}  // namespace paceline::transport
