// The lemmas, the memory formula and the mini-batch rule.
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/sizing/gpus.h"
#include "planner/sizing/layer_chain.h"
#include "planner/sizing/memory.h"
#include "planner/sizing/mini_batch.h"
#include "planner/sizing/servers.h"

namespace paceline::planner {
namespace {

using testing::HasSubstr;

// --- Lemma 3.1 ---

TEST(Gpus, FourAtEightyPerCentAllowNinePerCentOverhead) {
  EXPECT_NEAR(largest_overhead(4, 0.8)->value(), 0.2 / 2.2, 1e-15);
  EXPECT_NEAR(efficiency(0.2 / 2.2, 4), 0.8, 1e-15);
}

TEST(Gpus, TenPerCentOverheadNeedFourForThreeTimes) {
  const GpuCount count = fewest_gpus(0.1, 3).value();
  EXPECT_EQ(count.gpus, 4);
  EXPECT_NEAR(*count.limit, 11, 1e-12);
  EXPECT_NEAR(speedup(0.1, 4), 4 * 1.1 / 1.4, 1e-15);
}

TEST(Gpus, WithoutOverheadEverySpeedUpCostsThatManyGpus) {
  for (double wanted : {0.5, 1.0, 2.0, 2.5, 1000.0}) {
    const GpuCount count = fewest_gpus(0, wanted).value();
    EXPECT_EQ(count.gpus, std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(wanted)))) << wanted;
    EXPECT_FALSE(count.limit);
    EXPECT_EQ(efficiency(0, *count.gpus), 1);
  }
}

TEST(Gpus, ASpeedUpThatIsExactlyReachedCostsNoGpuMore) {
  // 5 GPUs at 0.2 reach exactly 3, 10 at 0.1 5.5, 4 at 0.5 2: as decimals, not as doubles.
  EXPECT_EQ(fewest_gpus(0.2, 3)->gpus, 5);
  EXPECT_EQ(fewest_gpus(0.1, 5.5)->gpus, 10);
  EXPECT_EQ(fewest_gpus(0.5, 2)->gpus, 4);
  EXPECT_EQ(fewest_gpus(0.2, std::nextafter(3, 4) * (1 + 1e-12))->gpus, 6);
  for (std::int64_t thousandths = 1; thousandths <= 1'000; ++thousandths) {
    for (std::int64_t gpus : {1, 2, 3, 7, 32, 100}) {
      const double overhead = static_cast<double>(thousandths) / 1000;
      EXPECT_EQ(fewest_gpus(overhead, speedup(overhead, gpus))->gpus, gpus) << overhead;
    }
  }
}

TEST(Gpus, TheAnswerIsEnoughAndOneLessIsNot) {
  std::mt19937_64 random(1);
  for (int n = 0; n < 20'000; ++n) {
    const double overhead = std::uniform_real_distribution<double>(0.001, 0.5)(random);
    const double wanted = std::uniform_real_distribution<double>(0.1, 1.1 * (1 + overhead) / overhead)(random);
    const GpuCount count = fewest_gpus(overhead, wanted).value();
    ASSERT_EQ(count.gpus.has_value(), wanted < *count.limit) << overhead << " " << wanted;
    if (!count.gpus) continue;
    ASSERT_GE(speedup(overhead, *count.gpus), wanted * (1 - 1e-14));
    if (*count.gpus > 1) {
      ASSERT_LT(speedup(overhead, *count.gpus - 1), wanted);
    }
  }
}

TEST(Gpus, NoNumberReachesTheLimit) {
  EXPECT_FALSE(fewest_gpus(0.5, 3)->gpus);
  EXPECT_FALSE(fewest_gpus(0.1, 11)->gpus);
  EXPECT_FALSE(fewest_gpus(0.1, 12)->gpus);
  EXPECT_TRUE(fewest_gpus(0.5, 2.999)->gpus);
  EXPECT_FALSE(fewest_gpus(0, 1e300)->gpus);
}

TEST(Gpus, AnyOverheadWillDoWhenOneGpuIsEnough) {
  EXPECT_FALSE(largest_overhead(2, 0.5).value());
  EXPECT_FALSE(largest_overhead(1, 1).value());
  EXPECT_FALSE(largest_overhead(10, 0.1).value());
  EXPECT_EQ(largest_overhead(2, 1)->value(), 0);
}

TEST(Gpus, TheMostForAnEfficiencyReachItAndOneMoreDoesNot) {
  EXPECT_EQ(*most_gpus(1.0 / 11, 0.8).value(), 4);  // the paper's example, turned round
  EXPECT_EQ(*most_gpus(0.3, 1).value(), 1);
  EXPECT_EQ(most_gpus(0, 0.9).value(), std::nullopt);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> overhead(0.001, 1), wanted(0.05, 1);
  for (int i = 0; i < 2000; ++i) {
    const double r = overhead(random), a = wanted(random);
    const std::int64_t most = *most_gpus(r, a).value();
    EXPECT_GE(efficiency(r, most), a * (1 - 1e-12)) << i;
    EXPECT_LT(efficiency(r, most + 1), a * (1 + 1e-12)) << i;
  }
}

TEST(Gpus, RefuseWhatIsOutOfRange) {
  EXPECT_FALSE(most_gpus(-1, 0.5).ok());
  EXPECT_FALSE(most_gpus(0.1, 0).ok());
  for (double efficiency : {0.0, -0.1, 1.1, std::nan("")})
    EXPECT_THAT(largest_overhead(2, efficiency).status().message(), HasSubstr("efficiency is"));
  EXPECT_THAT(largest_overhead(0, 0.5).status().message(), HasSubstr("gpus is 0"));
  EXPECT_THAT(fewest_gpus(-1, 2).status().message(), HasSubstr("overhead is -1"));
  EXPECT_THAT(fewest_gpus(1, 0).status().message(), HasSubstr("speedup is 0"));
}

// --- Lemma 3.2 ---

ServerQuestion question(double compute_seconds, Duplex duplex = Duplex::kHalf) {
  return {.parameters = {244'000'000},
          .workers = 8,
          .server_bandwidth = {125e6},
          .worker_bandwidth = {125e6},
          .compute_seconds = compute_seconds,
          .duplex = duplex};
}

TEST(Servers, AreEnoughToHideTheTrafficAndNotOneMore) {
  // 2 * 244 MB * 8 / (125 MB/s * 10 s) = 3.12
  EXPECT_EQ(servers_needed(question(10))->servers, 4);
  EXPECT_EQ(servers_needed(question(10, Duplex::kFull))->servers, 2);
  EXPECT_EQ(servers_needed(question(1e6))->servers, 1);
}

TEST(Servers, AWholeQuotientIsNotRoundedUp) {
  // 0.1 s at 0.3 GB/s carry 30 MB; 3 MB * 10 workers need one server, though 0.1 * 3e8 is no whole number in binary.
  ServerQuestion exact{.parameters = {3'000'000},
                       .workers = 10,
                       .server_bandwidth = {3e8},
                       .worker_bandwidth = {3e8},
                       .compute_seconds = 0.1,
                       .duplex = Duplex::kFull};
  for (std::int64_t servers = 1; servers <= 100; ++servers) {
    exact.workers = 10 * servers;
    EXPECT_EQ(servers_needed(exact)->servers, servers);
    exact.workers += 1;
    EXPECT_EQ(servers_needed(exact)->servers, servers + 1);
  }
}

TEST(Servers, NoNumberHelpsAWorkerWhoseOwnLinkIsTooSlow) {
  // Half duplex: 488 MB in 1 s over 125 MB/s lacks 363 MB/s. In 3.904 s it just fits.
  EXPECT_DOUBLE_EQ(servers_needed(question(1))->worker_link_shortfall.value, 363e6);
  EXPECT_DOUBLE_EQ(servers_needed(question(1, Duplex::kFull))->worker_link_shortfall.value, 119e6);
  EXPECT_EQ(servers_needed(question(3.904))->worker_link_shortfall.value, 0);
  ServerQuestion fast = question(1);
  fast.worker_bandwidth = {1e9};
  EXPECT_EQ(servers_needed(fast)->worker_link_shortfall.value, 0);
}

TEST(Servers, RefuseWhatIsOutOfRange) {
  ServerQuestion wrong = question(1);
  wrong.workers = 0;
  EXPECT_THAT(servers_needed(wrong).status().message(), HasSubstr("workers is 0"));
  EXPECT_THAT(servers_needed(question(0)).status().message(), HasSubstr("compute_time is 0"));
  wrong = question(1);
  wrong.server_bandwidth = {0};
  EXPECT_THAT(servers_needed(wrong).status().message(), HasSubstr("bandwidth is 0"));
  wrong.server_bandwidth = {1e-300};
  EXPECT_THAT(servers_needed(wrong).status().message(), HasSubstr("more than 2^53"));
}

// --- memory ---

double megabytes(std::int64_t bits) { return static_cast<double>(bits) / 8e6; }

TEST(Memory, OfAlexNetIsThatOfTheWorkedExample) {
  const MemoryNeed need = memory_need(model::describe("alexnet").value(), 128, {std::int64_t{12} << 30}).value();
  EXPECT_NEAR(megabytes(need.feature_maps_bits), 472.6, 0.05);
  EXPECT_NEAR(megabytes(need.convolution_bits), 44.97, 0.005);
  EXPECT_NEAR(megabytes(need.classifier_bits), 713.0, 0.05);
  EXPECT_NEAR(megabytes(need.bound_bits), 11'654, 0.5);
}

TEST(Memory, CountsGroupsAndMissingBiases) {
  model::ModelDescription model;
  model::LayerDescription layer;
  layer.kind = model::LayerKind::kConvolution;
  layer.convolution =
      model::ConvolutionGeometry{.kernel = {3, 2}, .groups = 2, .bias = false, .input = {4, 5, 5}, .output = {6, 3, 4}};
  model.layers = {layer};
  const MemoryNeed need = memory_need(model, 2, {0}).value();
  EXPECT_EQ(need.feature_maps_bits, (4 * 5 * 5 + 6 * 3 * 4) * 2 * 32);
  EXPECT_EQ(need.convolution_bits, 3 * 2 * 2 * 6 * 96);
  EXPECT_EQ(need.classifier_bits, 0);
  EXPECT_EQ(need.bound_bits, -(need.feature_maps_bits + need.convolution_bits));
}

TEST(Memory, CountsClassifiersAndTheirBiases) {
  model::ModelDescription model = model::describe("mlp").value();
  const std::int64_t biased = memory_need(model, 3, {0})->classifier_bits;
  EXPECT_EQ(biased, (784 + 512 + 512 + 10) * 3 * 32 + 669'706 * 96);
  model.layers[1].linear->bias = false;
  EXPECT_EQ(memory_need(model, 3, {0})->classifier_bits, biased - 512 * 96);
}

TEST(Memory, RefusesAMiniBatchThatNoIntegerHolds) {
  const model::ModelDescription model = model::describe("alexnet").value();
  EXPECT_THAT(memory_need(model, 0, {1}).status().message(), HasSubstr("mini_batch is 0"));
  EXPECT_THAT(memory_need(model, std::int64_t{1} << 53, {1}).status().message(), HasSubstr("smaller mini_batch"));
  EXPECT_TRUE(memory_need(model, 1'000'000'000, {1}).ok());
}

TEST(Memory, TheFormulaIsForConvolutionalNetworks) {
  EXPECT_EQ(no_formula_reason(model::describe("alexnet").value()), "");
  EXPECT_THAT(no_formula_reason(model::describe("mlp").value()), HasSubstr("no convolutions"));
  EXPECT_THAT(no_formula_reason(model::describe("seq2seq").value()), HasSubstr("is recurrent"));
}

TEST(FftMemoryRatio, ReproducesThePapersTable) {
  // Mini-batch, input, output, depth, filters; rounded as printed.
  const std::pair<ConvolutionSize, double> rows[] = {
      {{128, 224, 224, 55, 55, 3, 96}, 11.6}, {{128, 27, 27, 27, 27, 96, 256}, 1.6},  {{128, 13, 13, 13, 13, 256, 384}, 2.3},
      {{128, 13, 13, 13, 13, 384, 384}, 2.7}, {{128, 13, 13, 13, 13, 384, 256}, 2.3},
  };
  for (const auto& [size, printed] : rows) EXPECT_NEAR(fft_memory_ratio(size), printed, 0.05);
}

// --- layer chain ---

TEST(LayerChain, AcceptsEveryKnownNetwork) {
  for (const std::string& name : model::names()) {
    const Status status = check_chain(model::describe(name).value());
    EXPECT_TRUE(status.ok()) << name << ": " << status.message();
  }
}

TEST(LayerChain, NamesTheLayerThatDoesNotFitAndWhatWasExpected) {
  const model::ModelDescription good = model::describe("alexnet").value();
  model::ModelDescription bad = good;
  bad.layers[2].convolution->input = {100, 13, 13};
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 3 'conv3' takes [100, 13, 13]; expected [256, 13, 13]"));
  bad = good;
  bad.layers[1].convolution->output.height = 28;
  EXPECT_THAT(check_chain(bad).message(),
              HasSubstr("layer 2 'conv2' says its output is [256, 28, 27]; its input [96, 27, 27] gives [256, 27, 27]"));
  bad = good;
  bad.layers[0].pooling[0].input.channels = 95;
  bad.layers[0].pooling[0].output.channels = 95;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 1 'conv1', pooling 'pool1' takes [95, 55, 55]"));
  bad = good;
  bad.layers[5].linear->in_features = 9215;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 6 'fc6' takes 9215 features; expected 9216"));
  bad = good;
  bad.layers[6].linear->in_features = 4000;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 7 'fc7' takes 4000 features; expected 4096"));
  bad = good;
  bad.layers[3].parameters += 1;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 4 'conv4' says it has"));
  bad = good;
  bad.layers[3].tensors[0].shape[1] = 192;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 4 'conv4' says its tensor 'weight' is [384, 192, 3, 3]"));
  bad = good;
  bad.layers[1].convolution->groups = 7;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 2 'conv2' has 7 groups"));
  bad = good;
  bad.layers[1].convolution->stride.width = 0;
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("layer 2 'conv2' has a stride of 0"));
  bad = good;
  bad.layers[4].pooling[0].kernel = {99, 99};
  EXPECT_THAT(check_chain(bad).message(), HasSubstr("larger than its padded input"));
}

// --- mini-batch ---

MiniBatchCandidate candidate(std::int64_t size, double bound, std::vector<std::vector<AlgorithmCost>> layers) {
  return {size, bound, std::move(layers)};
}

TEST(MiniBatch, TakesTheShortestDataEpoch) {
  // 100 samples: 10 iterations of 3 s; 4 of 5 s; 2 of 12 s, because the fast algorithm no longer fits.
  const auto choice = choose_mini_batch(
      100, {candidate(10, 9, {{{3, 1}}}), candidate(25, 9, {{{5, 8}, {9, 0}}}), candidate(50, 7, {{{9, 8}, {12, 0}}})});
  EXPECT_EQ(choice->best, 1u);
  EXPECT_EQ(choice->candidates[1].iterations, 4);
  EXPECT_EQ(choice->candidates[1].time, 20);
  EXPECT_EQ(choice->candidates[2].time, 24);
}

TEST(MiniBatch, OfEqualTimesTakesTheLarger) {
  const auto sizes = {candidate(10, 9, {{{1, 0}}}), candidate(30, 9, {{{3, 0}}}), candidate(20, 9, {{{2, 0}}})};
  EXPECT_EQ(choose_mini_batch(60, sizes)->best, 1u);
  // 3 * 0.1 is 0.30000000000000004 in binary, and equal to 0.3 on paper.
  EXPECT_EQ(choose_mini_batch(3, {candidate(1, 9, {{{0.1, 0}}}), candidate(3, 9, {{{0.3, 0}}})})->best, 1u);
  EXPECT_EQ(choose_mini_batch(6, {candidate(1, 9, {{{0.1, 0}}}), candidate(2, 9, {{{0.1, 0}, {0.1, 0}}})})->best, 1u);
}

TEST(MiniBatch, TheLastIterationMayBeSmaller) {
  EXPECT_EQ(choose_mini_batch(101, {candidate(50, 1, {{{1, 1}}})})->candidates[0].iterations, 3);
}

TEST(MiniBatch, WhatDoesNotFitIsNoCandidate) {
  const auto choice = choose_mini_batch(10, {candidate(5, 1, {{{1, 2}}}), candidate(1, 2, {{{1, 2}}})});
  EXPECT_EQ(choice->best, 1u);
  EXPECT_FALSE(choice->candidates[0].algorithms.feasible);
  EXPECT_FALSE(choose_mini_batch(10, {candidate(5, 1, {{{1, 2}}})})->best);
}

TEST(MiniBatch, RefusesWhatIsNotAQuestion) {
  EXPECT_THAT(choose_mini_batch(0, {candidate(1, 1, {})}).status().message(), HasSubstr("samples is 0"));
  EXPECT_THAT(choose_mini_batch(1, {}).status().message(), HasSubstr("candidates is empty"));
  EXPECT_THAT(choose_mini_batch(1, {candidate(1, 1, {}), candidate(0, 1, {})}).status().message(),
              HasSubstr("candidates[1]: mini_batch is 0"));
  EXPECT_THAT(choose_mini_batch(1, {candidate(1, 1, {{}})}).status().message(),
              HasSubstr("candidates[0]: layer 1 has no algorithms"));
}

}  // namespace
}  // namespace paceline::planner
