#include "trainer/data/sampler.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace paceline::trainer::data {
namespace {

TEST(Random, IsSplitMix64) {
  Random random(0);  // the generator's published first outputs for seed 0
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(random.next(), 0x06c45d188009454fu);
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  Random random(7);
  for (const std::uint64_t n : {1u, 2u, 3u, 7u}) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 200; ++i) seen.insert(random.below(n));
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

Sampler sampler_of(std::uint64_t seed, std::int64_t samples, std::int32_t workers, std::int64_t mini_batch,
                   std::vector<std::int32_t> buckets = {}) {
  return Sampler::make({.seed = seed, .samples = samples, .workers = workers, .mini_batch = mini_batch}, std::move(buckets))
      .value();
}

// The twin: draws a permutation by taking a random one of those that are left, in the same order of draws.
std::vector<std::int64_t> twin_order(std::uint64_t seed, std::int64_t samples, std::int64_t data_epoch) {
  Random random(random_at(seed, {1, static_cast<std::uint64_t>(data_epoch)}));
  std::vector<std::int64_t> items, order(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) items.push_back(i);
  for (std::size_t left = items.size(); left > 0; --left) {
    const std::size_t drawn = left > 1 ? random.below(left) : 0;
    order[left - 1] = items[drawn];
    items[drawn] = items[left - 1];
    items.pop_back();
  }
  return order;
}

TEST(Sampler, GivesWhatTheTwinGivesWhateverIsAskedFirst) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const auto workers = static_cast<std::int32_t>(1 + random.below(5));
    const auto mini_batch = static_cast<std::int64_t>(1 + random.below(6));
    const auto samples = workers * mini_batch + static_cast<std::int64_t>(random.below(40));
    Sampler sampler = sampler_of(seed, samples, workers, mini_batch);
    const std::int64_t per_epoch = samples / (workers * mini_batch);
    ASSERT_EQ(sampler.iterations_per_data_epoch(), per_epoch) << "seed " << seed;
    for (int asked = 0; asked < 5; ++asked) {
      const auto iteration = static_cast<Iteration>(1 + random.below(static_cast<std::uint64_t>(3 * per_epoch)));
      const auto rank = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(workers)));
      const auto order = twin_order(seed, samples, (iteration - 1) / per_epoch);
      const auto first = order.begin() + ((iteration - 1) % per_epoch * workers + rank) * mini_batch;
      ASSERT_EQ(sampler.samples(iteration, Rank{rank}), std::vector<std::int64_t>(first, first + mini_batch))
          << "seed " << seed << " iteration " << iteration;
    }
  }
}

TEST(Sampler, GivesEachSampleAtMostOncePerDataEpochAndWorkersDisjointShares) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed * 77);
    const auto workers = static_cast<std::int32_t>(1 + random.below(5));
    const auto mini_batch = static_cast<std::int64_t>(1 + random.below(6));
    const auto samples = workers * mini_batch + static_cast<std::int64_t>(random.below(60));
    std::vector<std::int32_t> buckets;
    if (seed % 2 == 0) {
      for (std::int64_t i = 0; i < samples; ++i) buckets.push_back(static_cast<std::int32_t>(1 + random.below(4)));
    }
    Sampler sampler = sampler_of(seed, samples, workers, mini_batch, buckets);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::set<std::int64_t> seen;
      for (std::int64_t k = 1; k <= sampler.iterations_per_data_epoch(); ++k) {
        const Iteration iteration = epoch * sampler.iterations_per_data_epoch() + k;
        ASSERT_EQ(sampler.data_epoch(iteration), epoch);
        for (std::int32_t rank = 0; rank < workers; ++rank) {
          for (const std::int64_t index : sampler.samples(iteration, Rank{rank})) {
            ASSERT_TRUE(seen.insert(index).second) << "sample " << index << " twice, seed " << seed;
            ASSERT_TRUE(index >= 0 && index < samples) << "seed " << seed;
          }
        }
      }
      ASSERT_EQ(static_cast<std::int64_t>(seen.size()), samples / (workers * mini_batch) * workers * mini_batch) << "seed " << seed;
    }
  }
}

TEST(Sampler, KeepsTheSameSamplesWithBucketsAsWithout) {
  std::vector<std::int32_t> buckets;
  for (int i = 0; i < 103; ++i) buckets.push_back(1 + i % 7);
  Sampler plain = sampler_of(3, 103, 2, 5), grouped = sampler_of(3, 103, 2, 5, buckets);
  std::multiset<std::int64_t> in_plain, in_grouped;
  for (Iteration i = 1; i <= 10; ++i) {
    for (const std::int32_t rank : {0, 1}) {
      for (const auto s : plain.samples(i, Rank{rank})) in_plain.insert(s);
      for (const auto s : grouped.samples(i, Rank{rank})) in_grouped.insert(s);
    }
  }
  EXPECT_EQ(in_plain, in_grouped);
}

TEST(Sampler, PutsOneLengthBucketIntoAnIterationExceptForTheRest) {
  std::vector<std::int32_t> buckets;
  for (int i = 0; i < 1000; ++i) buckets.push_back(1 + i * i % 4);
  Sampler sampler = sampler_of(5, 1000, 2, 5, buckets);
  int mixed = 0;
  for (Iteration i = 1; i <= sampler.iterations_per_data_epoch(); ++i) {
    std::set<std::int32_t> found;
    for (const std::int32_t rank : {0, 1}) {
      for (const auto s : sampler.samples(i, Rank{rank})) found.insert(buckets[static_cast<std::size_t>(s)]);
    }
    mixed += found.size() > 1;
  }
  EXPECT_LE(mixed, 4);  // at most one for each bucket
}

TEST(Sampler, PermutesEachDataEpochAnewAndByTheSeed) {
  Sampler a = sampler_of(1, 100, 1, 100), b = sampler_of(2, 100, 1, 100);
  EXPECT_NE(a.samples(1, Rank{0}), a.samples(2, Rank{0}));
  EXPECT_NE(a.samples(1, Rank{0}), b.samples(1, Rank{0}));
}

TEST(Sampler, GivesTheSameBitsOnEveryMachine) {
  Sampler sampler = sampler_of(1, 10, 2, 2);
  EXPECT_EQ(sampler.samples(1, Rank{0}), (std::vector<std::int64_t>{0, 6}));
  EXPECT_EQ(sampler.samples(4, Rank{1}), (std::vector<std::int64_t>{8, 6}));
}

TEST(Sampler, RefusesWhatLeavesNoIteration) {
  for (const SamplerOptions options :
       {SamplerOptions{.samples = 7, .workers = 2, .mini_batch = 4}, SamplerOptions{.samples = 1, .workers = 2, .mini_batch = 1},
        SamplerOptions{.samples = 5, .workers = 1, .mini_batch = std::int64_t{1} << 62}}) {
    const auto made = Sampler::make(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().kind(), ErrorKind::kBadRequest);
    for (const std::string& number :
         {std::to_string(options.samples), std::to_string(options.workers), std::to_string(options.mini_batch)}) {
      EXPECT_NE(made.status().message().find(number), std::string::npos) << made.status().message();
    }
  }
  EXPECT_FALSE(Sampler::make({.samples = 0, .workers = 1, .mini_batch = 1}).ok());
  EXPECT_FALSE(Sampler::make({.samples = 10, .workers = 0, .mini_batch = 1}).ok());
  EXPECT_FALSE(Sampler::make({.samples = 10, .workers = 1, .mini_batch = 0}).ok());
}

}  // namespace
}  // namespace paceline::trainer::data
