#include "transport/inproc/pipe.h"

#include <algorithm>
#include <cstring>

namespace paceline::transport {

using Outcome = Stream::Moved::Outcome;

void Pipe::raise_and_forget(Signal*& signal) {
  if (signal != nullptr) std::exchange(signal, nullptr)->raise();
}

Stream::Moved Pipe::read(std::span<const iovec> spaces) {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const iovec& space : spaces) {
    std::size_t done = 0;
    while (done < space.iov_len && used_ > 0) {
      const std::size_t count = std::min({space.iov_len - done, used_, kPipeBytes - first_});
      std::memcpy(static_cast<std::byte*>(space.iov_base) + done, ring_.get() + first_, count);
      first_ = (first_ + count) % kPipeBytes;
      used_ -= count;
      done += count;
    }
    total += done;
  }
  if (total > 0) {
    raise_and_forget(writer_);
    return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
  }
  return {.outcome = writer_closed_ ? Outcome::kEnd : Outcome::kLater, .reason = {}};
}

Stream::Moved Pipe::write(std::span<const iovec> pieces) {
  const std::lock_guard lock(mutex_);
  if (reader_closed_) return {.outcome = Outcome::kEnd, .reason = error(ErrorKind::kPeerLost, "it closed the connection")};
  if (ring_ == nullptr) ring_ = std::make_unique_for_overwrite<std::byte[]>(kPipeBytes);
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    std::size_t done = 0;
    while (done < piece.iov_len && used_ < kPipeBytes) {
      const std::size_t end = (first_ + used_) % kPipeBytes;
      const std::size_t count = std::min({piece.iov_len - done, kPipeBytes - used_, kPipeBytes - end});
      std::memcpy(ring_.get() + end, static_cast<const std::byte*>(piece.iov_base) + done, count);
      used_ += count;
      done += count;
    }
    total += done;
  }
  if (total == 0) return {.outcome = Outcome::kLater, .reason = {}};
  raise_and_forget(reader_);
  return {.outcome = Outcome::kSome, .bytes = total, .reason = {}};
}

void Pipe::signal_readable(Signal& signal) {
  const std::lock_guard lock(mutex_);
  reader_ = &signal;
  if (readable()) raise_and_forget(reader_);
}

void Pipe::signal_writable(Signal& signal) {
  const std::lock_guard lock(mutex_);
  writer_ = &signal;
  if (writable()) raise_and_forget(writer_);
}

void Pipe::close_reader() {
  const std::lock_guard lock(mutex_);
  reader_closed_ = true;
  reader_ = nullptr;
  raise_and_forget(writer_);
}

void Pipe::close_writer() {
  const std::lock_guard lock(mutex_);
  writer_closed_ = true;
  writer_ = nullptr;
  raise_and_forget(reader_);
}

}  // namespace paceline::transport
