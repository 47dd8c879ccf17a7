#include "replay/values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"

namespace paceline::replay {
namespace {

enum Stream : std::uint64_t { kInitial = 0x1417, kDirection = 0xd12ec, kSize = 0x512e };

// In [0, 1), a multiple of 2^-23.
float uniform(std::uint64_t drawn) { return static_cast<float>(drawn >> 41) * 0x1p-23f; }

// Calls visit(part of the period, part of the array's indices) for each run between two ends of the period until it returns false.
template <typename Visit>
void for_each_run(std::size_t period, std::int64_t offset, std::size_t count, Visit visit) {
  auto at = static_cast<std::size_t>(offset % static_cast<std::int64_t>(period));
  for (std::size_t done = 0; done < count;) {
    const std::size_t run = std::min(period - at, count - done);
    if (!visit(at, done, run)) return;
    done += run;
    at = 0;
  }
}

}  // namespace

Values::Values(std::uint64_t seed) : seed_(seed) {
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(kPeriod); ++i) {
    initial_.push_back(2 * uniform(random_at(seed, {kInitial, i})) - 1);
    const std::uint64_t drawn = random_at(seed, {kDirection, i});
    const float magnitude = 0.5f + uniform(drawn);
    direction_.push_back((drawn & 1) != 0 ? -magnitude : magnitude);
  }
}

float Values::size(Rank rank, Iteration iteration) const {
  return 0.5f + uniform(random_at(seed_, {kSize, static_cast<std::uint64_t>(rank.value), static_cast<std::uint64_t>(iteration)}));
}

float Values::gradient(Rank rank, Iteration iteration, std::int64_t index) const {
  return size(rank, iteration) * direction_[static_cast<std::size_t>(index % kPeriod)];
}

void Values::make_gradient(Rank rank, Iteration iteration, std::span<float> period) const {
  const float multiple = size(rank, iteration);
  std::ranges::transform(direction_, period.begin(), [&](float one) { return multiple * one; });
}

void repeat(std::span<const float> period, std::int64_t offset, std::span<float> to) {
  for_each_run(period.size(), offset, to.size(), [&](std::size_t at, std::size_t begin, std::size_t run) {
    std::memcpy(to.data() + begin, period.data() + at, run * sizeof(float));
    return true;
  });
}

std::optional<std::size_t> first_difference(std::span<const float> period, std::int64_t offset, std::span<const float> values) {
  std::optional<std::size_t> found;
  for_each_run(period.size(), offset, values.size(), [&](std::size_t at, std::size_t begin, std::size_t run) {
    if (std::memcmp(values.data() + begin, period.data() + at, run * sizeof(float)) == 0) return true;
    const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    for (found = begin; bits(values[*found]) == bits(period[at + *found - begin]); ++*found) {
    }
    return false;
  });
  return found;
}

}  // namespace paceline::replay
