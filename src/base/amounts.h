// Numbers of a JSON object or a calculation as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "base/text.h"

namespace paceline {

// "1.3 ms"; from 10^9 s on, which no Duration needs to hold, "1.3e+12 s".
inline std::string in_time(double seconds) {
  return std::abs(seconds) < 1e9 ? to_text(from_seconds(seconds)) : fmt::format("{:.4g} s", seconds);
}
inline std::string in_bytes(double count) { return to_text(Bytes{static_cast<std::int64_t>(std::ceil(count))}); }

inline std::string counted(std::int64_t count, const char* one) {  // "1 worker", "2 workers"
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace paceline
