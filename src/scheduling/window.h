// How many bytes a node may have on their way, and how large its chunks are: what an urgent unit has to wait for
// (docs/algorithms.md, section 1, place 4). A fixed number of bytes, or following the link (scheduling/window_follower.h):
//     window = rate * (link_time + round trip),   within [kSmallestFollowing, kLargestFollowing],
//     wide   = min(spread, max(rate * kSpreadTime, kSmallestSpread)), what several destinations together may hold if it is more.
//
// A window holds at least four chunks if these can be made small enough, so that one link can be kept busy by several destinations.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::scheduling {

inline constexpr Bytes kLargestChunk{65'536}, kSmallestChunk{16'384};
inline constexpr Bytes kStartWindow{400'000};
// With less the link idles while the destinations that a window is full of are busy with what others send them: two chunks cost
// Inception-v3 3 % between four hosts (docs/results/2026-11-schedules.md).
inline constexpr Bytes kSmallestFollowing{4 * kLargestChunk.count};
inline constexpr Bytes kLargestFollowing{std::int64_t{64} << 20};
// A node that is late by some milliseconds leaves those idle whose windows are full of what is for it. More than a switch holds of
// a link would be lost there (docs/results/2026-11-schedules.md).
inline constexpr Duration kSpreadTime = std::chrono::milliseconds(10);
// Three of P3's slices, for which a switch has room however slow the link is. With less, a GPT of 10 million parameters
// takes 2 % longer by links of 200 Mb/s (docs/results/2026-11-front.md).
inline constexpr Bytes kSmallestSpread{600'000};
inline constexpr Bytes kUnbounded{std::int64_t{1} << 40};  // a window that never holds anything back

struct WindowRule {
  enum class Kind { kFollows, kFixed };
  Kind kind = Kind::kFollows;
  Bytes size = kStartWindow;                          // kFixed: of the window; kFollows: until the rate is known
  Duration link_time = std::chrono::milliseconds(2);  // kFollows: 10 us .. 1 s
  Bytes spread;  // kFollows: some slices, by egress_rules(); 0: several destinations are as one

  bool operator==(const WindowRule&) const = default;
};
inline constexpr WindowRule fixed_window(Bytes size) { return {.kind = WindowRule::Kind::kFixed, .size = size}; }

// "auto", "auto:4ms" (the link time), or a size of at least two of the largest chunks. kBadRequest that says what is legal.
Result<WindowRule> parse_window(std::string_view text);
std::string to_text(const WindowRule& rule);  // as parse_window reads it

// Of a link with that rate and round trip.
Bytes window_for(const WindowRule& rule, BytesPerSecond rate, Duration round_trip);
Bytes wide_for(const WindowRule& rule, BytesPerSecond rate);
// The chunks of a window: a quarter of it, within [kSmallestChunk, kLargestChunk].
Bytes chunk_for(Bytes window);

}  // namespace paceline::scheduling
