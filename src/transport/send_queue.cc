#include "transport/send_queue.h"

#include <algorithm>
#include <cstring>

namespace paceline::transport {

void SendQueue::grow() {
  std::vector<Entry> larger(std::max<std::size_t>(8, 2 * ring_.size()));
  for (std::size_t i = 0; i < size_; ++i) larger[i] = at(i);
  ring_.swap(larger);
  first_ = 0;
}

void SendQueue::push(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  if (size_ == ring_.size()) grow();
  Entry& entry = ring_[(first_ + size_) & (ring_.size() - 1)];
  std::memcpy(entry.head.data(), head.bytes.data(), head.size);
  entry.head_bytes = head.size;
  entry.payload = payload;
  entry.ticket = ticket;
  ++size_;
}

std::size_t SendQueue::gather(std::span<iovec> pieces, std::size_t bytes) const {
  std::size_t used = 0;
  std::size_t total = 0;
  std::size_t skip = offset_;
  const auto add = [&](std::span<const std::byte> piece) {
    const std::size_t skipped = std::min(skip, piece.size());
    skip -= skipped;
    if (skipped == piece.size()) return;
    // A writer only reads from it; iovec serves both directions.
    pieces[used++] = iovec{const_cast<std::byte*>(piece.data() + skipped), piece.size() - skipped};
    total += piece.size() - skipped;
  };
  for (std::size_t i = written_; i < size_ && used + 2 <= pieces.size() && total < bytes; ++i) {
    const Entry& entry = at(i);
    add(std::span(entry.head).first(entry.head_bytes));
    add(entry.payload);
  }
  return used;
}

void SendQueue::consumed(std::size_t count) {
  while (count > 0) {
    const Entry& entry = at(written_);
    const std::size_t rest = entry.head_bytes + entry.payload.size() - offset_;
    if (count < rest) {
      offset_ += count;
      return;
    }
    count -= rest;
    offset_ = 0;
    ++written_;
  }
}

std::optional<std::uint64_t> SendQueue::take_written() {
  if (written_ == 0) return std::nullopt;
  const std::uint64_t ticket = at(0).ticket;
  first_ = (first_ + 1) & (ring_.size() - 1);
  --size_;
  --written_;
  return ticket;
}

}  // namespace paceline::transport
