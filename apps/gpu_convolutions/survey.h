// Every convolution of a network with every family of cuDNN's that computes it, for some mini-batches; and its three forms: the
// case of `paceline plan mini-batch`, a JSON document, a table. What measures is handed in, so that all this runs without a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "gpu_convolutions/request.h"
#include "planner/sizing/cudnn_families.h"

namespace paceline::gpu_convolutions {

using Json = nlohmann::ordered_json;

struct SurveyedMiniBatch {
  MiniBatch mini_batch;
  std::vector<planner::CudnnLayerCandidates> layers;  // one for each convolution, each with at least a candidate
};

struct Survey {
  std::string model;
  planner::CudnnFingerprint fingerprint;
  int rounds = 1;
  std::optional<std::int64_t> samples;  // then every mini-batch has a bound
  std::vector<SurveyedMiniBatch> mini_batches;
};

using MeasureLayer = std::function<Result<planner::MeasuredCudnnLayer>(
    const model::LayerDescription& layer, const std::vector<planner::CudnnPass>& passes, std::int64_t mini_batch)>;

// `on_done` hears how many layers are done, of work.convolutions x work.mini_batches. Errors: what `measure` says; kIo naming a
// layer that no family computes.
Result<std::vector<SurveyedMiniBatch>> survey(const Work& work, const MeasureLayer& measure,
                                              const std::function<void(std::int64_t)>& on_done);

// {"samples", "candidates": [{"mini_batch", "bound", "layers": [[{"time", "memory"}, …], …]}, …]}: seconds of a step and bytes.
// Number i of a layer is its candidate i. Requires samples and bounds.
Json case_of(const Survey& survey);

// docs/gpu.md has the keys. With `samples` the case is in it.
Json to_json(const Survey& survey);

// For people.
std::string to_text(const Survey& survey);

}  // namespace paceline::gpu_convolutions
