// Samples put together for one iteration of one worker, and how long that took.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

// Contiguous buffers that torch can wrap without a copy. Reused: vectors keep their capacity.
struct MiniBatch {
  Iteration iteration = 0;  // 0 when not made by a loader
  std::vector<std::int64_t> indices;

  std::vector<float> inputs;               // images: B x C x H x W
  std::vector<std::int64_t> tokens;        // text: B x longest source, padded with kPad behind
  std::vector<std::int64_t> input_shape;   // {B, C, H, W} or {B, longest source}
  std::vector<std::int64_t> targets;       // images: B labels; text: B x longest target (kBegin ... kEnd), padded with kPad behind
  std::vector<std::int64_t> target_shape;  // {B} or {B, longest target}

  double load_seconds = 0;        // bringing stored bytes into memory
  double preprocess_seconds = 0;  // decoding, resizing, normalising, padding
};

// Fills `batch` with the samples `indices` of `dataset`, in that order. The first sample that cannot be read is the error. For
// evaluation call it directly; training goes through a Loader, which calls the same function. Any thread.
Status assemble(const Dataset& dataset, std::span<const std::int64_t> indices, const Clock& clock, MiniBatch& batch);

}  // namespace paceline::trainer::data
