// A table of layers that stands for a network: how large each layer is and how long it computes. What `--model replay:FILE` reads
// and `paceline profile --record FILE` writes:
//   {"layers": [{"name": "conv1", "parameters": 1792, "forward_s": 0.0009, "backward_s": 0.0018}, ...]}
// in forward order. Beside "layers" there may be "model", "source", "parameters" (the sum) and "compute_s", which only inform
// people. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "report/report.h"
#include "wire/tensor_table.h"

namespace paceline::replay {

using report::Json;

struct LayerRow {
  std::string name;
  std::int64_t parameters = 0;       // 0 .. 2^53
  double forward = 0, backward = 0;  // seconds, 0 .. 3600

  bool operator==(const LayerRow&) const = default;
};

struct LayerTable {
  std::vector<LayerRow> layers;

  bool operator==(const LayerTable&) const = default;
};

// `source` names the table in messages. Errors (kBadRequest) name it, the layer (from 1, and its name) and the key: no layers, a
// key that is missing, unknown, there twice, of a wrong type, negative or not finite.
Result<LayerTable> parse_table(const std::string& text, const std::string& source);
// The same of a file; kBadRequest too when it cannot be read.
Result<LayerTable> read_table(const std::string& path);

// Text that parse_table turns into an equal table, one layer a line. `notes`: "model", "source".
std::string to_text(const LayerTable& table, const Json& notes);

// A network whose parameters are `scale` >= 1 times fewer: max(1, round(parameters / scale)) in each layer. The times stay.
LayerTable scaled(LayerTable table, double scale);

// One tensor for each layer. Names that occur twice get their number.
wire::TensorTable tensors_of(const LayerTable& table);

// Whether a worker's arrays (parameters, gradients, values on their way) fit into the memory of a machine with `memory` bytes;
// kBadRequest that says what would.
Status check_fits(const LayerTable& table, Bytes memory);

}  // namespace paceline::replay
