// Any bytes as a control message: refused, or read such that writing gives the same bytes again.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "wire/control.h"
#include "wire/message.h"

namespace {

template <typename Decode>
void check(std::span<const std::byte> bytes, Decode decode) {
  using paceline::wire::encode;  // of settings too, which are no type of its namespace
  const auto message = decode(bytes);
  if (message.ok() && !std::ranges::equal(encode(*message), bytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes, decode_join);
  check(bytes, decode_welcome);
  check(bytes, decode_stop);
  check(bytes, decode_settings);
  if (const auto join = decode_join(bytes); join.ok() && validate(join->table).ok()) {
    if (join->table.offsets().back() != join->table.elements()) std::abort();
  }
  if (const auto chunk = decode_chunk(bytes); chunk.ok()) {
    std::array<std::byte, kChunkBodyBytes> again;
    encode(*chunk, again);
    if (!std::ranges::equal(again, bytes)) std::abort();
  }
  return 0;
}
