#include "transport/frame_reader.h"

#include <algorithm>
#include <cstring>

namespace paceline::transport {
namespace {

constexpr std::size_t kLargestHead = wire::kHeaderBytes + wire::kMaxBody;
// A frame with a payload up to this size is taken for one of many small ones, worth reading together.
constexpr std::size_t kSmallPayload = 8192;
// Magic, major and minor version.
constexpr std::size_t kTellsAStranger = 6;

}  // namespace

void FrameReader::set_limits(std::size_t buffer_bytes, std::size_t payload_limit) {
  PACELINE_CHECK(buffer_bytes >= kLargestHead, "a buffer of {} bytes holds no head", buffer_bytes);
  wanted_capacity_ = buffer_bytes;
  payload_limit_ = payload_limit;
}

std::span<const iovec> FrameReader::spaces() {
  if (capacity_ < wanted_capacity_) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted_capacity_);
    if (available() != 0) std::memcpy(larger.get(), buffer_.get() + begin_, available());
    buffer_ = std::move(larger);
    capacity_ = wanted_capacity_;
    end_ -= begin_;
    begin_ = 0;
  }
  if (in_payload_) {
    // What lands in the buffer is copied once more if it is payload, so behind a large payload there is only room for a head.
    const std::size_t room = header_.payload_bytes > kSmallPayload ? kLargestHead : capacity_;
    const auto rest = place_.subspan(filled_);
    spaces_ = {iovec{rest.data(), rest.size()}, iovec{buffer_.get(), room}};
    return spaces_;
  }
  if (begin_ != 0) {  // less than a head is left
    std::memmove(buffer_.get(), buffer_.get() + begin_, available());
    end_ -= begin_;
    begin_ = 0;
  }
  spaces_[0] = iovec{buffer_.get() + end_, capacity_ - end_};
  return std::span(spaces_).first(1);
}

Status FrameReader::consume(std::size_t count, ConnectionHandler& handler) {
  if (in_payload_) {
    const std::size_t taken = std::min(count, place_.size() - filled_);
    filled_ += taken;
    end_ = count - taken;
    if (filled_ < place_.size()) return {};
    PACELINE_RETURN_IF_ERROR(end_payload(std::span(body_).first(header_.body_bytes), handler));
  } else {
    end_ += count;
  }
  return parse(handler);
}

Status FrameReader::parse(ConnectionHandler& handler) {
  while (open_) {
    if (available() < wire::kHeaderBytes) return check_stranger();
    const std::span<const std::byte> all(buffer_.get() + begin_, available());
    PACELINE_ASSIGN_OR_RETURN(const wire::FrameHeader header, open_header(all.first<wire::kHeaderBytes>()));
    const std::size_t head_bytes = wire::kHeaderBytes + header.body_bytes;
    if (all.size() < head_bytes) return {};
    PACELINE_RETURN_IF_ERROR(wire::check_head(header, all.first(head_bytes)));
    met_frame_ = true;
    const auto body = all.subspan(wire::kHeaderBytes, header.body_bytes);
    begin_ += head_bytes;
    if (header.payload_bytes == 0) {
      PACELINE_RETURN_IF_ERROR(wire::check_payload(header, {}));
      handler.on_frame(Frame{header, body, {}});
    } else {
      PACELINE_RETURN_IF_ERROR(begin_payload(header, body, handler));
      if (in_payload_) return {};
    }
  }
  return {};
}

Status FrameReader::begin_payload(const wire::FrameHeader& header, std::span<const std::byte> body, ConnectionHandler& handler) {
  const auto place = handler.on_head(header, body);
  if (!open_) return {};
  if (place.size() != header.payload_bytes) {
    return error(ErrorKind::kCorrupt, "a frame with a payload of {} bytes was refused by its receiver", header.payload_bytes);
  }
  header_ = header;
  place_ = place;
  filled_ = std::min(available(), place.size());
  std::memcpy(place.data(), buffer_.get() + begin_, filled_);
  begin_ += filled_;
  if (filled_ == place.size()) return end_payload(body, handler);
  std::copy(body.begin(), body.end(), body_.begin());
  begin_ = end_ = 0;
  in_payload_ = true;
  return {};
}

Status FrameReader::end_payload(std::span<const std::byte> body, ConnectionHandler& handler) {
  in_payload_ = false;
  PACELINE_RETURN_IF_ERROR(wire::check_payload(header_, place_));
  handler.on_frame(Frame{header_, body, place_});
  return {};
}

Result<wire::FrameHeader> FrameReader::open_header(std::span<const std::byte, wire::kHeaderBytes> bytes) {
  auto header = wire::open_header(bytes, payload_limit_);
  if (!header.ok() && header.status().kind() == ErrorKind::kBadRequest) {
    if (met_frame_)
      return error(ErrorKind::kCorrupt, "the stream was damaged: where a frame should begin, {}", header.status().message());
    owes_answer_ = wire::speaks_tls(bytes) || std::memcmp(bytes.data(), wire::kMagic.data(), wire::kMagic.size()) == 0;
  }
  return header;
}

// Somebody who speaks another protocol may never send as much as a header: he is known by his first bytes.
Status FrameReader::check_stranger() {
  if (met_frame_ || available() < kTellsAStranger) return {};
  std::array<std::byte, wire::kHeaderBytes> padded{};
  std::memcpy(padded.data(), buffer_.get() + begin_, available());
  const auto header = open_header(padded);
  // What kBadRequest is decided by is there; the rest of the header is not.
  if (!header.ok() && header.status().kind() == ErrorKind::kBadRequest) return header.status();
  return {};
}

}  // namespace paceline::transport
