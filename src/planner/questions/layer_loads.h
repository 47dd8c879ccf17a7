// The layers of a model as a replay table, a profile or a person lists them, for the questions that take them.
#pragma once

#include <string>
#include <vector>

#include "cost/lower_bound.h"
#include "planner/questions/json.h"
#include "planner/questions/question.h"

namespace paceline::planner {

// The key "layers" of a question.
Key layers_key();
// Its value. kBadRequest naming the layer and the key.
Result<std::vector<cost::LayerLoad>> layer_loads(const Json& input);

// What a profile or a replay table says beside what a question asks; `more`: what it says to other questions.
std::vector<std::string> of_profile(std::vector<std::string> more);

}  // namespace paceline::planner
