// Any bytes as what a process has recorded, or as its clock: refused, or read such that writing gives the same bytes again.
#include <algorithm>
#include <cstdlib>

#include "wire/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto part = decode_timeline_part(bytes); part.ok() && !std::ranges::equal(encode(*part), bytes)) std::abort();
  if (const auto reading = decode_clock_reading(bytes); reading.ok() && !std::ranges::equal(encode(*reading), bytes)) std::abort();
  return 0;
}
