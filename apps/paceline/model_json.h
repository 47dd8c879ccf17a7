// A network's description as JSON: what `paceline models --json` prints and what `plan memory` reads back as "layers".
//
// Of a model: "name", "parameters", "macs", "input" (one sample's shape), "classes", "layers" in forward order.
// Of a layer: "name", "kind", "parameters", "macs", "tensors":[{"name","shape"}], and
//   "convolution": {"kernel":[h,w], "stride":[h,w], "padding":[h,w], "groups", "bias", "input":[c,h,w], "output":[c,h,w]} for a
//   convolution, "linear": {"in_features", "out_features", "bias"} for a linear layer, "pooling": [{"name", "kind":"max"|"average",
//   "kernel", "stride", "padding", "input", "output"}], when any runs between it and the next.
#pragma once

#include <nlohmann/json.hpp>

#include "model/description.h"

namespace paceline::cli {

nlohmann::ordered_json to_json(const model::LayerDescription& layer);
nlohmann::ordered_json to_json(const model::ModelDescription& model);

}  // namespace paceline::cli
