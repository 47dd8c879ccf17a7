// Turns the options of a question into its values. Pure: text in, values out.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "planner/questions/question.h"

namespace paceline::cli {

using planner::Json;

// parameter_bytes -> --parameter-bytes; input -> --input-size, since --input names the file.
std::string option_name(const std::string& key);

// The values of the options that were given, by key name, checked; of any of the keys.
Result<Json> values_from_options(const planner::Question& question, const std::map<std::string, std::string>& values);

// One case from the options that were given, by key name. Amounts as planner::amount_from_text reads them; lists are separated by
// commas; a kJson key is a JSON text. Errors name the option.
Result<Json> case_from_options(const planner::Question& question, const std::map<std::string, std::string>& values);

}  // namespace paceline::cli
