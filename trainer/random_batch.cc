#include "trainer/random_batch.h"

#include <torch/torch.h>

namespace paceline::trainer {

RandomBatch random_batch(const model::ModelDescription& description, std::int64_t samples) {
  if (description.input.size() != 2) {
    std::vector<std::int64_t> shape = description.input;
    shape.insert(shape.begin(), samples);
    return {torch::randn(shape), torch::randint(description.classes, {samples}, torch::kInt64)};
  }
  const std::int64_t length = description.input[1];
  return {torch::randint(4, description.classes, {samples, length}, torch::kInt64),
          torch::randint(4, description.classes, {samples, length + 1}, torch::kInt64)};
}

}  // namespace paceline::trainer
