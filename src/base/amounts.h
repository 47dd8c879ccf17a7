// Numbers of a JSON object or a calculation as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "base/text.h"

namespace paceline {

inline std::string in_time(double seconds) { return to_text(from_seconds(seconds)); }  // "1.3 ms"
inline std::string in_bytes(double count) { return to_text(Bytes{static_cast<std::int64_t>(std::ceil(count))}); }

inline std::string counted(std::int64_t count, const char* one) {  // "1 worker", "2 workers"
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace paceline
