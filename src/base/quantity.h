// Quantities are types, so that bytes are never added to seconds and a rank is never used as a layer.
// Plain values; free to copy.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace paceline {

// A number of bytes. Never negative in a valid object; differences are taken with `count`.
struct Bytes {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
};

// A rate of a link or a memory.
struct BytesPerSecond {
  double value = 0;
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};

// Nanoseconds on a monotonic clock; virtual time in simulations uses the same types.
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

constexpr double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
// Of more than 292 years: the longest there is.
constexpr Duration from_seconds(double s) {
  constexpr double kMost = 9.2e9;
  if (s >= kMost) return Duration::max();
  if (s <= -kMost) return Duration::min();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

// The number of a worker or a server within its role, from 0. Which role is said by the field's name.
struct Rank {
  std::int32_t value = 0;
  constexpr auto operator<=>(const Rank&) const = default;
};

// Position of a layer in the forward order, from 0; its priority: lower is needed earlier.
struct Layer {
  std::int32_t index = 0;
  constexpr auto operator<=>(const Layer&) const = default;
};

// Iterations are counted from 1; 0 is "before the first", the version of the initial values.
using Iteration = std::int64_t;

}  // namespace paceline
