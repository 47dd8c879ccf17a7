// How an error is printed: one line, "paceline: error: SENTENCE [paceline help PL-CODE]". A process that starts others reads their
// lines and prints one of its own, with what they said.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline {

inline constexpr std::string_view kErrorMark = "paceline: error: ";

// Without a line end. A code that has no page is shown as that of its kind.
std::string error_line(const Status& status);

// What an error line says; nothing: `line` is none. Without a code in the line: "".
struct SaidError {
  std::string sentence, code;
};
std::optional<SaidError> read_error_line(std::string_view line);

// A line of another process as a part of a sentence: without its code.
std::string without_code(std::string_view line);

}  // namespace paceline
