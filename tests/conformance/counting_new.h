// Counts every operator new of the program it is linked into, and refuses large ones where it is asked to. A file of its own: where
// the compiler sees both the replaced operators and their callers, it takes the free() inside for a mismatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::transport::testing {

std::uint64_t allocations();      // so far, by all threads
std::uint64_t allocated_bytes();  // likewise: what was asked for, whether or not it was given back

// From here on this thread has no memory for what has so many bytes or more; 0: it has.
void refuse_memory(std::size_t from_bytes);

}  // namespace paceline::transport::testing
