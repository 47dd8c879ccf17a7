// What the tests of the egress queue share.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduling/egress_queue.h"

namespace paceline::scheduling {

inline std::vector<std::uint64_t> tags_until_empty(EgressQueue& queue) {
  std::vector<std::uint64_t> tags;
  while (const auto chunk = queue.take()) {
    tags.push_back(chunk->tag);
    queue.on_acknowledged(chunk->destination, chunk->size);
  }
  return tags;
}

inline EgressQueue::Destination open(EgressQueue& queue) {
  const auto destination = queue.add();
  queue.resume(destination);
  return destination;
}

}  // namespace paceline::scheduling
