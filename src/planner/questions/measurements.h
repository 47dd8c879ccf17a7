// What `paceline profile` measured of training steps on a machine, as JSON: the cache that `plan job` reads, or what a person
// gives it (`--measurements FILE`).
//
//   {"fingerprint": {"processor", "cores", "libraries"},        of a cache; a person's file may leave it out
//    "measurements": [{"model", "mini_batch", "step_s", "rest_s" (of it, what is no convolution),
//                      "tensors_peak_bytes", "process_peak_bytes", "process_before_bytes" (these three may be absent),
//                      "whole_gain" (of the layers' fastest algorithms in whole steps; may be absent),
//                      "layers": [{"name", "algorithms": [{"algorithm", "forward_s", "backward_s", "workspace_bytes"}]}]}],
//    "steps": [{"model", "dataset", "mini_batch", "overhead", "overhead_without_pipelining", "prefetch", "loader_threads"
//               (these two may be absent)}]}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "model/convolution_algorithm.h"
#include "planner/questions/json.h"

namespace paceline::planner {

struct MeasuredAlgorithm {
  model::ConvolutionAlgorithm algorithm{};
  double forward_s = 0, backward_s = 0;
  std::int64_t workspace_bytes = 0;
  double seconds() const { return forward_s + backward_s; }
};

struct MeasuredLayer {
  std::string name;
  std::vector<MeasuredAlgorithm> algorithms;
};

// One training step of `model` with so many samples on one worker.
struct MeasuredStep {
  std::string model;
  std::int64_t mini_batch = 0;
  double step_s = 0, rest_s = 0;
  std::int64_t tensors_peak_bytes = 0, process_peak_bytes = 0, process_before_bytes = 0;  // 0: not measured
  std::vector<MeasuredLayer> layers;
  // Steps with the default over steps with each layer's fastest algorithm, whole ones in turns; 0: not measured.
  double whole_gain = 0;
};

// What `profile --steps` found: Lemma 3.1's R_O.
struct MeasuredOverhead {
  std::string model, dataset;
  std::int64_t mini_batch = 0;
  double overhead = 0, overhead_without_pipelining = 0;
  std::int32_t prefetch = 0, loader_threads = 0;  // with which loading hid as well as it could; 0: not measured
};

struct Measurements {
  std::vector<MeasuredStep> steps;
  std::vector<MeasuredOverhead> overheads;

  // Takes the place of what was measured of the same model and mini-batch (and data set).
  void put(MeasuredStep step);
  void put(MeasuredOverhead overhead);
  // R_O of the data set, "" of any; with the nearest mini-batch. Null: it was not measured.
  const MeasuredOverhead* overhead_of(const std::string& model, const std::string& dataset, std::int64_t mini_batch) const;
};

Json to_json(const MeasuredStep& step);
// `fingerprint`: what the times depend on, of a cache.
Json to_json(const Measurements& measurements, const Json& fingerprint);

// kBadRequest naming `source`, the element and the key: unknown or missing keys, wrong types, negative or non-finite numbers,
// algorithms that do not exist, layers that are no convolutions of the model.
Result<MeasuredStep> read_step(const Json& json, const std::string& source);
// Of what the trainer measured with a choice of algorithms: how many times as fast its whole steps were as the default's.
Result<double> read_gain(const Json& json, const std::string& source);
Result<Measurements> read_measurements(const Json& json, const std::string& source);

}  // namespace paceline::planner
