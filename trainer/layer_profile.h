// How long each layer of a network computes on this machine, forward and backward, as a worker of a job would see it: between the
// gates of the forward pass and between the gradients of the backward pass. One thread; no data set, no network.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/convolution_algorithm.h"

namespace paceline::trainer {

struct LayerProfileOptions {
  std::string model;
  std::int64_t mini_batch = 32;           // at least 1
  std::int64_t rounds = 5;                // steps that count, at least 1
  std::int64_t warm_up = 2;               // steps before them, which do not
  double limit = 0;                       // seconds after which no step begins, once one counts; 0: none
  model::ConvolutionChoice convolutions;  // as --convolutions says
};

struct LayerProfile {
  struct Layer {
    std::string name;
    std::int64_t parameters = 0;
    std::vector<double> forward, backward;  // seconds, by round
  };
  std::vector<Layer> layers;  // in forward order
  std::vector<double> steps;  // seconds of a whole step, by round
  std::int64_t warm_up = 0;   // steps before them
};

// Errors: kBadRequest for an unknown model or too small a mini-batch. `on_step(done, total)` after every step.
Result<LayerProfile> profile_layers(const LayerProfileOptions& options,
                                    const std::function<void(std::int64_t, std::int64_t)>& on_step);

}  // namespace paceline::trainer
