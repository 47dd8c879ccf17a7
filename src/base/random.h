// Random numbers that are the same on every machine, compiler and library: SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014). Pure functions and plain values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace paceline {

// SplitMix64's output function: a bijection that scatters neighbouring inputs.
constexpr std::uint64_t scattered(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// One number from a seed and a position, so that any sample can be made without the ones before it.
constexpr std::uint64_t random_at(std::uint64_t seed, std::initializer_list<std::uint64_t> position) {
  std::uint64_t state = scattered(seed + 0x9e3779b97f4a7c15u);
  for (const std::uint64_t step : position) state = scattered(state + 0x9e3779b97f4a7c15u * (step + 1));
  return state;
}

// A sequence of numbers.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() { return scattered(state_ += 0x9e3779b97f4a7c15u); }

  // Uniform over 0..n-1, n at least 1; without the bias of a plain remainder.
  constexpr std::uint64_t below(std::uint64_t n) {
    const std::uint64_t unusable = (std::numeric_limits<std::uint64_t>::max() % n + 1) % n;  // 2^64 mod n
    std::uint64_t drawn = next();
    while (drawn < unusable) drawn = next();
    return drawn % n;
  }

 private:
  std::uint64_t state_;
};

}  // namespace paceline
