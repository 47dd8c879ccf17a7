// What `paceline profile` says of a network's layers: how it comes from the trainer's measurement, as the one JSON document that
// `plan batches` and `plan iteration` both read, and as a table to replay. Pure: values in, values out.
#pragma once

#include <string>
#include <vector>

#include "paceline/profile/measured_link.h"
#include "replay/table.h"

namespace paceline::cli {

struct LayerSpread {
  std::string name;
  std::int64_t parameters = 0;
  Spread forward, backward;  // seconds
  Bytes size() const { return Bytes{parameters * static_cast<std::int64_t>(sizeof(float))}; }
};

struct MeasuredLayers {
  std::string model, source;  // source: where and how it was measured, for people
  std::int64_t mini_batch = 0, rounds = 0, warm_up = 0;
  std::vector<LayerSpread> layers;  // in forward order
  Spread step;                      // seconds
  double compute_seconds() const;   // sum of the layers' medians
  std::int64_t parameters() const;
};

// The trainer's {"layers": [{"name", "parameters", "forward_s": [by round], "backward_s": [by round]}], "step_s": [by round],
// "warm_up"}.
// kCorrupt when it is something else.
Result<MeasuredLayers> read_layers_measurement(const Json& measurement);

// The medians.
replay::LayerTable replay_table_of(const MeasuredLayers& measured);
// Text of a replay table with "model", "source", "parameters" and "compute_s".
std::string record_text(const MeasuredLayers& measured);

// {"model", "source", "mini_batch", "rounds", "warm_up", "parameters", "compute_s", "step_s": spread, "nodes", "bandwidth",
//  "start_up", "residual", "transfer": [s], "forward": [s], "backward": [s], "bytes": [], "layers": [{"name", "parameters",
//  "forward_s", "backward_s"}], "spread": {"forward": [spread], "backward": [spread]}, "link": as MeasuredLink}
Json profile_json(const MeasuredLayers& measured, const MeasuredLink& link, std::int64_t nodes);
std::string profile_text(const MeasuredLayers& measured, const MeasuredLink& link);

}  // namespace paceline::cli
