// Counts every operator new of the program it is linked into. A file of its own: where the compiler sees both the replaced
// operators and their callers, it takes the free() inside for a mismatch.
#pragma once

#include <cstdint>

namespace paceline::transport::testing {

std::uint64_t allocations();  // so far, by all threads

}  // namespace paceline::transport::testing
