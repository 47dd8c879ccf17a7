// Any fields of a message's head as those of a collective operation, and any bytes as a group: refused, or read such that packing
// gives the same bits again.
#include <algorithm>
#include <cstdlib>

#include "wire/collective.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto group = decode_collective_group(bytes); group.ok()) {
    const auto same = encode(*group);
    if (!std::equal(same.begin(), same.end(), bytes.begin(), bytes.end())) std::abort();
  }
  const auto chunk = decode_chunk(bytes);
  if (!chunk.ok()) return 0;
  const auto head = unpack(chunk->head);
  if (!head.ok()) return 0;
  MessageHead again = chunk->head;
  pack(*head, again);
  if (again != chunk->head) std::abort();
  return 0;
}
