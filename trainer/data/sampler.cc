#include "trainer/data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.h"

namespace paceline::trainer::data {
namespace {

enum Purpose : std::uint64_t { kPermutation = 1, kGroups = 2 };

// Fisher-Yates from the back.
template <typename T>
void permute(std::vector<T>& items, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

}  // namespace

Result<Sampler> Sampler::make(const SamplerOptions& options, std::vector<std::int32_t> buckets) {
  if (options.workers < 1) return error(ErrorKind::kBadRequest, "{} workers, at least 1 expected", options.workers);
  if (options.mini_batch < 1)
    return error(ErrorKind::kBadRequest, "a mini-batch of {} samples, at least 1 expected", options.mini_batch);
  if (options.samples < 1)
    return error(ErrorKind::kBadRequest, "the training set holds {} samples, at least 1 expected", options.samples);
  if (options.samples / options.workers < options.mini_batch) {
    return error(ErrorKind::kBadRequest,
                 "the training set holds {} samples, fewer than one mini-batch of {} for each of {} workers; give a smaller "
                 "mini-batch (at most {}) or "
                 "fewer workers",
                 options.samples, options.mini_batch, options.workers,
                 std::max<std::int64_t>(1, options.samples / options.workers));
  }
  PACELINE_CHECK(buckets.empty() || static_cast<std::int64_t>(buckets.size()) == options.samples, "{} buckets for {} samples",
                 buckets.size(), options.samples);
  return Sampler(options, std::move(buckets));
}

Result<Sampler> Sampler::make(const Dataset& train, SamplerOptions options) {
  options.samples = train.size();
  std::vector<std::int32_t> buckets;
  if (train.form().content == Content::kText) {
    for (std::int64_t i = 0; i < train.size(); ++i) buckets.push_back(bucket_of(train.length(i)));
  }
  return make(options, std::move(buckets));
}

std::int64_t Sampler::iterations_per_data_epoch() const { return options_.samples / options_.workers / options_.mini_batch; }

std::int64_t Sampler::data_epoch(Iteration iteration) const {
  PACELINE_CHECK(iteration >= 1, "iterations are counted from 1, not {}", iteration);
  return (iteration - 1) / iterations_per_data_epoch();
}

std::vector<std::int64_t> Sampler::samples(Iteration iteration, Rank rank) {
  PACELINE_CHECK(rank.value >= 0 && rank.value < options_.workers, "rank {} of {} workers", rank.value, options_.workers);
  const std::int64_t epoch = data_epoch(iteration);
  if (epoch != arranged_epoch_) arrange(epoch);
  const std::int64_t within = (iteration - 1) % iterations_per_data_epoch();
  const auto first = order_.begin() + (within * options_.workers + rank.value) * options_.mini_batch;
  return {first, first + options_.mini_batch};
}

void Sampler::arrange(std::int64_t data_epoch) {
  order_.resize(static_cast<std::size_t>(options_.samples));
  std::iota(order_.begin(), order_.end(), 0);
  permute(order_, random_at(options_.seed, {kPermutation, static_cast<std::uint64_t>(data_epoch)}));
  order_.resize(static_cast<std::size_t>(iterations_per_data_epoch() * options_.workers * options_.mini_batch));
  if (!buckets_.empty()) group_by_bucket(random_at(options_.seed, {kGroups, static_cast<std::uint64_t>(data_epoch)}));
  arranged_epoch_ = data_epoch;
}

// A group is what all workers take in one iteration. Full groups of one bucket first; what the buckets have left over, the shortest
// first, makes the others. Then the groups change places, so that lengths do not ascend over the data epoch.
void Sampler::group_by_bucket(std::uint64_t seed) {
  const auto group_size = static_cast<std::size_t>(options_.workers * options_.mini_batch);
  std::map<std::int32_t, std::vector<std::int64_t>> open;
  std::vector<std::vector<std::int64_t>> groups;
  for (const std::int64_t sample : order_) {
    std::vector<std::int64_t>& group = open[buckets_[static_cast<std::size_t>(sample)]];
    group.push_back(sample);
    if (group.size() == group_size) groups.push_back(std::exchange(group, {}));
  }
  std::vector<std::int64_t> rest;
  for (const auto& [bucket, group] : open) rest.insert(rest.end(), group.begin(), group.end());
  for (auto at = rest.begin(); at != rest.end(); at += static_cast<std::ptrdiff_t>(group_size)) {
    groups.emplace_back(at, at + static_cast<std::ptrdiff_t>(group_size));
  }
  permute(groups, seed);
  order_.clear();
  for (const auto& group : groups) order_.insert(order_.end(), group.begin(), group.end());
}

}  // namespace paceline::trainer::data
