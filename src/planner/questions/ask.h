// The questions of `paceline plan` for programs: JSON in, JSON out.
#pragma once

#include "base/status.h"
#include "planner/questions/question.h"

namespace paceline::planner {

// `settings`: one case, an object, or an array of them, which an array of answers answers. A case has the question's keys; a choice
// ("algorithm", "side") stands among them. Errors (kBadRequest) have the sentence of the command line, the key as their subject,
// and of an array the case's index: what a case lacks or has wrong. kIo where the solver is needed and not there (sizing/solver.h).
Result<Json> ask(const Question& question, const Json& settings);

// What is wrong with the settings of a question; where nothing narrower is known, a value is not legal.
Status as_refusal(const Status& status);

// The value of a choice. Errors name `where`: "--side", "key 'side'".
Result<std::string> checked_choice(const Choice& choice, const std::string& value, const std::string& where);

// [{"name", "purpose", "keys": [{"name", "type", "required", "help"}], "choices": [{"name", "values" (the first is the default),
// "help"}]}], for bindings.
Json described_questions();

}  // namespace paceline::planner
