// What can be asked by name: each question is a row, its settings and its answer are JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::library {

// `settings`: the question's own, one JSON object; "": none. A question of `paceline plan` ("plan slice") takes an array of them
// too (planner/questions/ask.h). Errors: kBadRequest, for a question that there is not with the nearest name, and for settings
// that it does not have; kIo where a question of plan needs the solver, and it cannot be loaded.
Result<std::string> ask(std::string_view question, std::string_view settings);

}  // namespace paceline::library
