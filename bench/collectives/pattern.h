// The numbers that benchmarked operations work on: small and whole, so that every order of additions gives the same sum, and
// periodic, so that filling and checking cost little. The peers (bench/peers) do the same.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace paceline::bench {

inline constexpr std::size_t kPatternPeriod = 13;
using Period = std::array<float, kPatternPeriod>;

inline Period contribution(int rank) {
  Period period{};
  for (std::size_t i = 0; i < kPatternPeriod; ++i)
    period[i] = static_cast<float>((7 * static_cast<std::size_t>(rank) + i) % kPatternPeriod);
  return period;
}

// What `operation` ("broadcast" from rank 0, "reduce", "allreduce", "reduce-scatter") makes of everybody's contributions. (An
// allgather leaves each rank's in its part.)
inline Period expected_result(std::string_view operation, int ranks) {
  Period period = contribution(0);
  for (int rank = 1; operation != "broadcast" && rank < ranks; ++rank) {
    for (std::size_t i = 0; i < kPatternPeriod; ++i) period[i] += contribution(rank)[i];
  }
  return period;
}

inline void fill(std::span<float> data, const Period& period) {
  for (std::size_t i = 0, k = 0; i < data.size(); ++i, k = k + 1 == kPatternPeriod ? 0 : k + 1) data[i] = period[k];
}

// Index of the first element that is another one; data.size() when there is none. `data` begins at element `begin` of the message.
inline std::size_t first_wrong(std::span<const float> data, const Period& period, std::size_t begin = 0) {
  for (std::size_t i = 0, k = begin % kPatternPeriod; i < data.size(); ++i, k = k + 1 == kPatternPeriod ? 0 : k + 1) {
    if (data[i] != period[k]) return i;
  }
  return data.size();
}

}  // namespace paceline::bench
