// Reads the "layers" that `paceline models NAME --json` prints (model_json.h) back into a description. Pure: JSON in, values out.
#pragma once

#include "base/status.h"
#include "model/description.h"
#include "planner/questions/question.h"

namespace paceline::planner {

// kBadRequest names the layer (1-based), the key, what was found and what is legal: not an array, unknown or missing keys, wrong
// types, a geometry that the layer's kind does not have, shapes that contradict each other or do not chain
// (planner/sizing/layer_chain.h). "parameters", "macs" and "tensors" may be absent.
Result<model::ModelDescription> read_layers(const Json& layers);

}  // namespace paceline::planner
