// Do the shapes of a layer list fit together? A list that people write by hand, or edit, is checked before a formula trusts it.
#pragma once

#include "base/status.h"
#include "model/description.h"

namespace paceline::planner {

// Each convolution and pooling: fields in range, output = Eq 1 of its input, `parameters` and tensors (when there are any) those of
// its geometry. Then the chain: what a layer takes must exist by then: the output of an earlier layer (normally the one before), or
// several earlier outputs joined along the channels, after a branch; for a linear layer, flattened. kBadRequest names the layer's
// number (1-based) and name, what it takes and what was expected.
Status check_chain(const model::ModelDescription& model);

}  // namespace paceline::planner
