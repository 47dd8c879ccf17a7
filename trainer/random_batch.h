// A mini-batch made up for a network, where only the time or the memory of a step counts.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "model/description.h"

namespace paceline::trainer {

struct RandomBatch {
  torch::Tensor input, target;
};

// Drawn from torch's generator. Sentences are of the longest length and hold no padding.
RandomBatch random_batch(const model::ModelDescription& description, std::int64_t samples);

}  // namespace paceline::trainer
