// Images that a network can learn, made from a seed and an index with whole numbers only: the same bytes on every machine, no file.
#pragma once

#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

// Each class has a prototype: 4 x 4 fields of one value per channel, 64..191, with a finer grain on top. A sample is its class's
// prototype plus noise of deviation 28, cut to 0..255. Sample i belongs to class i mod `classes`; the test samples are those that
// follow the training samples.
struct SyntheticOptions {
  std::int64_t channels = 3, height = 32, width = 32;  // each 1..65536, together at most 2^24 values
  std::int64_t classes = 10;                           // 1..2^20
  std::int64_t samples = 1000;                         // training, 1..2^40
  std::int64_t test = 200;                             // 1..2^40
  std::uint64_t seed = 1;
};

// kBadRequest when a number is out of range.
Result<DatasetPair> open_synthetic(const SyntheticOptions& options, const std::string& name);

}  // namespace paceline::trainer::data
