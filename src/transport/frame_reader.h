// Turns a stream of bytes into frames, for every backend that moves bytes. Says where the next bytes should be put, so that a
// large payload goes straight to its place: [rest of the payload, a little room for the next head]. Small frames come many at once
// through the buffer. Nothing is allocated per frame, and no length is believed before wire/frame.h has checked it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <sys/uio.h>

#include "transport/transport.h"

namespace paceline::transport {

inline constexpr std::size_t kStrangerBuffer =
    4096;  // all that a peer that was not admitted may occupy, besides the place of its payload
inline constexpr std::size_t kPeerBuffer = 32768;

class FrameReader {
 public:
  // `open` turns false when the connection is closed by a callback; the reader then stops.
  explicit FrameReader(const bool& open) : open_(open) {}

  // The limits from now on. A larger buffer is used from the next spaces() on, so it may be called inside a callback.
  void set_limits(std::size_t buffer_bytes, std::size_t payload_limit);

  // Where the next bytes are to be put, in this order; one or two places. Valid until consume().
  std::span<const iovec> spaces();

  // So many bytes complete a payload, or 1: what is worth being woken for.
  std::size_t wanted() const { return in_payload_ ? place_.size() - filled_ : 1; }

  // The first `count` bytes of spaces() are there. Calls the handler for what is complete. Errors: as in wire/frame.h, and
  // kCorrupt when the handler refused a frame; the stream is unusable after one.
  Status consume(std::size_t count, ConnectionHandler& handler);

  // After an error: the peer can do something with a frame of ours, since it is Paceline of another major version, or speaks TLS.
  bool owes_answer() const { return owes_answer_; }
  bool inside_frame() const { return in_payload_ || begin_ != end_; }

 private:
  Status parse(ConnectionHandler& handler);
  Status begin_payload(const wire::FrameHeader& header, std::span<const std::byte> body, ConnectionHandler& handler);
  Status end_payload(std::span<const std::byte> body, ConnectionHandler& handler);
  Status check_stranger();
  Result<wire::FrameHeader> open_header(std::span<const std::byte, wire::kHeaderBytes> bytes);
  std::size_t available() const { return end_ - begin_; }

  const bool& open_;
  bool owes_answer_ = false;
  bool met_frame_ = false;  // a head passed its checks: the peer is no stranger, whatever comes later
  std::size_t wanted_capacity_ = kStrangerBuffer;
  std::size_t payload_limit_ = wire::kMaxStrangerPayload;

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // [begin_, end_) has been received and not been understood yet; empty inside a payload
  std::size_t end_ = 0;

  // The frame whose payload is being received.
  bool in_payload_ = false;
  wire::FrameHeader header_;
  std::array<std::byte, wire::kMaxBody> body_;
  std::span<std::byte> place_;
  std::size_t filled_ = 0;

  std::array<iovec, 2> spaces_;
};

}  // namespace paceline::transport
