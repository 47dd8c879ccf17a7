// Prints answers for people: aligned, no JSON syntax where it can be avoided. Pure: values in, text out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/plan/question.h"

namespace paceline::cli {

using Units = std::map<std::string, planner::KeyType>;  // of keys whose numbers have one

// One answer: a line for each key. Ends with a newline.
std::string answer_text(const Json& answer, const Units& units);

// Several: a table with a row for each case, numbered from 0, and a column for each key that occurs.
std::string answers_table(const std::vector<Json>& answers, const Units& units);

}  // namespace paceline::cli
