// Any bytes as header, body and payload: nothing is read beyond what was given, nothing illegal is accepted, and what is accepted
// is sealed to the same bytes again. (Checksums are compiled out here, so that the fuzzer gets past them.)
#include <algorithm>
#include <cstdlib>

#include "wire/frame.h"

namespace {

using namespace paceline::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (bytes.size() < 1 + kHeaderBytes) return 0;
  const std::size_t limit = static_cast<std::uint8_t>(bytes[0]) % 2 == 0 ? kMaxPayload : kMaxStrangerPayload;
  const auto frame = bytes.subspan(1);
  const auto header = open_header(frame.first<kHeaderBytes>(), limit);
  if (!header.ok()) return 0;
  require(header->major == kMajorVersion);
  require(header->kind <= FrameKind::kGoodbye);
  require(header->body_bytes <= kMaxBody);
  require(header->payload_bytes <= limit);
  const std::size_t head_bytes = kHeaderBytes + header->body_bytes;
  if (frame.size() < head_bytes + header->payload_bytes) return 0;
  const auto payload = frame.subspan(head_bytes, header->payload_bytes);
  if (!check_head(*header, frame.first(head_bytes)).ok() || !check_payload(*header, payload).ok()) return 0;

  const SealedHead again = seal(*header, frame.subspan(kHeaderBytes, header->body_bytes), payload);
  const auto reopened = open_header(again.view().first<kHeaderBytes>(), limit);
  require(reopened.ok() && again.size == head_bytes);
  require(std::ranges::equal(again.view().first(36), frame.first(36)));  // all but the checksums
  require(std::ranges::equal(again.view().subspan(kHeaderBytes), frame.subspan(kHeaderBytes, header->body_bytes)));
  return 0;
}
