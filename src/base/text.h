// Reading and writing quantities as people type them, and suggesting the name they meant.
// Sizes: `4MiB` `64KB` `512` (KB = 1000, KiB = 1024; no unit: bytes). Rates: `1gbit` `125MB/s`. Times: `10ms` `1.5s` (a unit is
// required).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline {

Result<Bytes> parse_bytes(std::string_view text);
Result<BytesPerSecond> parse_rate(std::string_view text);
Result<Duration> parse_duration(std::string_view text);

std::string to_text(Bytes bytes);          // "4.2 MB"
std::string to_text(BytesPerSecond rate);  // "117.6 MB/s"
std::string to_text(Duration duration);    // "10.3 s", "12.5 ms", "830 ns"

// The candidate nearest to `name` by edit distance, or "" when none is near (more than a third of the letters differ).
std::string nearest(std::string_view name, std::span<const std::string> candidates);
// " (did you mean 'lenet'?)" or "".
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace paceline
