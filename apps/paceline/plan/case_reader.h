// Turns what a person or a script wrote, a JSON text or options, into checked cases of a question. Pure: text in, values out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "paceline/plan/question.h"

namespace paceline::cli {

// parameter_bytes -> --parameter-bytes; input -> --input-size, since --input names the file.
std::string option_name(const std::string& key);

// The cases of a JSON text: one object, or an array of them. `is_array` says which, because the answer has the same form.
struct Cases {
  std::vector<Json> cases;
  bool is_array = false;
};

// Errors (kBadRequest) name `source`, the case's index and the key: malformed JSON (with line and column), a repeated key, unknown
// and missing keys, wrong types, numbers that are negative, not finite or not whole where they must be. `beside`: values as of
// values_from_options, which hold for every case.
Result<Cases> read_cases(const Question& question, const std::string& text, const std::string& source, const Json& beside);

// The values of the options that were given, by key name, checked; of any of the keys.
Result<Json> values_from_options(const Question& question, const std::map<std::string, std::string>& values);

// One case from the options that were given, by key name. Units are allowed as in base/text.h; a plain number means seconds, bytes
// or bytes/s; lists are separated by commas; a kJson key is a JSON text. Errors name the option.
Result<Json> case_from_options(const Question& question, const std::map<std::string, std::string>& values);

}  // namespace paceline::cli
