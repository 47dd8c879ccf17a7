// What one training step of a network costs on this machine: time and workspace of every convolution with every algorithm, the time
// of everything else, and the most memory. Measured in the network, where a layer finds the caches as training leaves them.
// Meant for a fresh process: its high-water mark of memory is part of the result. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "model/convolution_algorithm.h"

namespace paceline::trainer {

struct StepProfileOptions {
  std::string model;
  std::int64_t mini_batch = 32;     // at least 1
  std::int64_t rounds = 5;          // steps timed with each algorithm, in turns; 0: a single step with the default, for its memory
  model::ConvolutionChoice choice;  // not empty: only this choice is measured, against the default
  Bytes memory;                     // an algorithm that would need more for a layer is left out; 0: no limit
};

struct AlgorithmMeasurement {
  model::ConvolutionAlgorithm algorithm{};
  double forward_seconds = 0, backward_seconds = 0;  // medians
  Bytes workspace;  // most that a pass allocates beyond its results, of tensors and oneDNN's scratch memory; not MKL's
};

struct LayerMeasurement {
  std::string name;
  std::vector<AlgorithmMeasurement> algorithms;  // those that can compute it, the default first
};

struct StepProfile {
  double seconds = 0;                    // a step with the default everywhere; median
  double rest_seconds = 0;               // of it, what is no convolution; median
  double chosen_seconds = 0;             // a step with `choice`; median; 0 without one
  Bytes tensors_peak;                    // most memory of tensors in such a step: parameters, activations, gradients
  Bytes process_peak;                    // of the process by the end of its first step, libraries included
  Bytes process_before;                  // when the network was about to be made
  std::vector<LayerMeasurement> layers;  // convolutions, in the order of registration
};

// Errors: kBadRequest for an unknown model, too small a mini-batch or a choice that does not fit the model; kOverloaded when there
// is not memory enough. `on_step(done, total)` after every step.
Result<StepProfile> profile_step(const StepProfileOptions& options, const std::function<void(std::int64_t, std::int64_t)>& on_step);

}  // namespace paceline::trainer
