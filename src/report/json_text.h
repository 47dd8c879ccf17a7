// Reads a JSON text strictly, so that every fault can be named by its place: repeated keys, numbers beyond double, NaN and Infinity
// (which some writers emit although JSON has none), nesting without end.
#pragma once

#include <string>

#include "base/status.h"
#include "report/report.h"

namespace paceline::report {

// Error (kBadRequest): "<source>: line 3, column 7: ..., in case 2, key 'forward'", the case (0-based) and key as far as they had
// been reached. With `cases` as kNone the text is one value, and the place is "in 'layers', entry 3, key 'forward_s'" (entries from
// 1).
enum class CaseIndex { kNone, kNamed };
Result<Json> parse_json(const std::string& text, const std::string& source, CaseIndex cases);

// The same of what another process has written, as deeply nested as anybody likes. Error (kCorrupt): "<source> is malformed: ...".
Result<Json> parse_foreign(const std::string& text, const std::string& source);

// A value as it stands in a message: compact, at most some 40 characters.
std::string brief(const Json& value);

}  // namespace paceline::report
