// Seconds of a JSON object or a calculation as people read them.
#pragma once

#include <string>

#include "base/text.h"

namespace paceline::cli {

inline std::string in_time(double seconds) { return to_text(from_seconds(seconds)); }  // "1.3 ms"

}  // namespace paceline::cli
