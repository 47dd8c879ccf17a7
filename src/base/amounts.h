// Numbers of a JSON object or a calculation as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "base/text.h"

namespace paceline {

inline std::string in_time(double seconds) { return to_text(from_seconds(seconds)); }  // "1.3 ms"
inline std::string in_bytes(double count) { return to_text(Bytes{static_cast<std::int64_t>(std::ceil(count))}); }

}  // namespace paceline
