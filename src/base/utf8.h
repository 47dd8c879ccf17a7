// Whether bytes are text. Messages, reports and checkpoints are JSON, which has no other.
#pragma once

#include <string_view>

namespace paceline {

// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace paceline
