// One direction of a connection between two loops of one process: a bounded ring of bytes. Any thread; each end belongs to one.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "transport/stream.h"

namespace paceline::transport {

inline constexpr std::size_t kPipeBytes = 128U << 10;

class Pipe {
 public:
  Stream::Moved read(std::span<const iovec> spaces);
  Stream::Moved write(std::span<const iovec> pieces);

  // Raises the signal once read() (write()) would not say kLater, at once if so already. The signal lives until it was raised
  // or close_reader() (close_writer()) was called.
  void signal_readable(Signal& signal);
  void signal_writable(Signal& signal);

  void close_reader();  // what was not read is lost; the writer learns of it
  void close_writer();  // the reader still gets what was written

 private:
  bool readable() const { return used_ > 0 || writer_closed_; }
  bool writable() const { return used_ < kPipeBytes || reader_closed_; }
  static void raise_and_forget(Signal*& signal);

  std::mutex mutex_;
  std::unique_ptr<std::byte[]> ring_;  // asked for with the first byte
  std::size_t first_ = 0;
  std::size_t used_ = 0;
  bool reader_closed_ = false;
  bool writer_closed_ = false;
  Signal* reader_ = nullptr;  // waiting
  Signal* writer_ = nullptr;
};

// The two directions as one side holds them; closes its side when it goes, wherever it is dropped.
class PipeEnd {
 public:
  PipeEnd(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out) : in_(std::move(in)), out_(std::move(out)) {}
  PipeEnd(PipeEnd&&) = default;
  PipeEnd& operator=(PipeEnd&&) = delete;
  ~PipeEnd() { close(); }

  Pipe& in() { return *in_; }
  Pipe& out() { return *out_; }
  void close() {
    if (in_ != nullptr) in_->close_reader();
    if (out_ != nullptr) out_->close_writer();
  }

 private:
  std::shared_ptr<Pipe> in_;
  std::shared_ptr<Pipe> out_;
};

}  // namespace paceline::transport
