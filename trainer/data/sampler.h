// Which samples a worker takes in an iteration. A function of (seed, samples, workers, mini-batch, iteration, rank) and nothing
// else, so that a resumed job needs only the number of the iteration, and the same job takes the same samples everywhere.
//
// In each data epoch the training set is permuted anew; iteration k of the data epoch (from 0) gives rank r the samples at
// positions (k * W + r) * B ... + B - 1. What does not fill a mini-batch for every worker is left out for all alike. With lengths
// given (text) the samples that are kept are regrouped, so that the W mini-batches of an iteration hold sentences of one length
// bucket as far as possible: workers then compute about equally long and pad little.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "trainer/data/dataset.h"

namespace paceline::trainer::data {

struct SamplerOptions {
  std::uint64_t seed = 1;
  std::int64_t samples = 0;     // N, of the training set
  std::int32_t workers = 1;     // W, at least 1
  std::int64_t mini_batch = 1;  // B, per worker, at least 1
};

// Sentences of up to 10 tokens are in bucket 1, of 11 to 20 in bucket 2, and so on.
constexpr std::int64_t kBucketTokens = 10;
constexpr std::int32_t bucket_of(std::int64_t length) {
  return static_cast<std::int32_t>((length + kBucketTokens - 1) / kBucketTokens);
}

// One thread at a time; copies are independent. Keeps the current data epoch's permutation (8 bytes per sample), so asking in
// ascending order costs O(N) once per data epoch and O(B) else.
class Sampler {
 public:
  // kBadRequest when N < W * B (no iteration would be left) or a number is out of range. `buckets`: one per sample, or empty.
  static Result<Sampler> make(const SamplerOptions& options, std::vector<std::int32_t> buckets = {});

  // Takes N, and the buckets of text, from the training set.
  static Result<Sampler> make(const Dataset& train, SamplerOptions options);

  std::int64_t iterations_per_data_epoch() const;                     // floor(N / (W * B)), at least 1
  std::int64_t data_epoch(Iteration iteration) const;                 // 0-based; `iteration` from 1
  std::vector<std::int64_t> samples(Iteration iteration, Rank rank);  // B indices; `iteration` from 1, rank 0..W-1

  const SamplerOptions& options() const { return options_; }

 private:
  Sampler(const SamplerOptions& options, std::vector<std::int32_t> buckets) : options_(options), buckets_(std::move(buckets)) {}
  void arrange(std::int64_t data_epoch);
  void group_by_bucket(std::uint64_t seed);

  SamplerOptions options_;
  std::vector<std::int32_t> buckets_;
  std::int64_t arranged_epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace paceline::trainer::data
