// Checks what a person or a script wrote as JSON against a question's keys. Pure: text in, values out.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/questions/question.h"

namespace paceline::planner {

// Largest count of bytes or things: doubles are exact up to here.
inline constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;

// The cases of a JSON text: one object, or an array of them. `is_array` says which, because the answer has the same form.
struct Cases {
  std::vector<Json> cases;
  bool is_array = false;
};

// Errors (kBadRequest) name `source`, the case's index and the key: malformed JSON (with line and column), a repeated key, unknown
// and missing keys, wrong types, numbers that are negative, not finite or not whole where they must be. `beside`: values that were
// checked already and hold for every case, whatever it says.
Result<Cases> read_cases(const Question& question, const std::string& text, const std::string& source, const Json& beside);

// One case. Errors name the key, which is their subject.
Result<Json> checked_case(const Question& question, const Json& given, const Json& beside);

// The number that a text says, for a key of bytes, a rate or seconds, with units as in base/text.h. Without a unit it is bytes or
// seconds; a rate has to say one ("1000" is a unit forgotten), and so has a size below the key's `bare_from`.
Result<Json> amount_from_text(const Key& key, const std::string& text);

// The value of a key: amounts as numbers, or as texts with their unit. Errors name `where`.
Result<Json> checked_value(const Key& key, const Json& value, const std::string& where);

}  // namespace paceline::planner
