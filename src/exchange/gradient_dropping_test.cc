#include "exchange/gradient_dropping.h"

#include <limits>

#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::exchange {
namespace {

// A job of one tensor with four elements, and its gradients as they are sent.
struct Dropping {
  explicit Dropping(const job::WireOptions& wire, std::int32_t workers = 1) : dropping(plan_for(wire, workers)) {}

  static std::shared_ptr<const job::Plan> plan_for(const job::WireOptions& wire, std::int32_t workers) {
    wire::TensorTable table;
    table.layers = {"fc"};
    table.tensors = {{.name = "weight", .dtype = "float32", .shape = {4}, .layer = Layer{0}}};
    job::PlanOptions options;
    options.workers = workers;
    options.wire = wire;
    return *job::Plan::make(table, options);
  }

  std::vector<float> sent(std::vector<float> gradient) {
    constexpr std::uint32_t kTensor = 0;
    tensor::ExactSquareSum squares;
    squares.add(gradient);
    const float coefficient = dropping.clips() ? dropping.clip_coefficient(squares) : 1;
    dropping.drop(kTensor, ++iteration, coefficient, gradient);
    return gradient;
  }

  GradientDropping dropping;
  Iteration iteration = 0;
};

using Values = std::vector<float>;

TEST(GradientDropping, WhatIsNotSentIsAddedToLaterGradients) {
  Dropping job({.kind = job::WireKind::kDropping, .share = 0.5});
  EXPECT_EQ(job.sent({1, -8, 4, 2}), (Values{0, -8, 4, 0}));
  EXPECT_EQ(job.sent({1, 1, 1, 1}), (Values{2, 0, 0, 3}));
  EXPECT_EQ(job.sent({0, 0, 0, 0}), (Values{0, 1, 1, 0}));
}

TEST(GradientDropping, CompressionAddsUpMomentumAndForgetsThatOfWhatIsSent) {
  Dropping job({.kind = job::WireKind::kDgc, .share = 0.25, .momentum = 0.5});
  EXPECT_EQ(job.sent({8, 4, 0, 0}), (Values{8, 0, 0, 0}));
  // The second's velocity is 4, then 2 + 4; the first's began anew.
  EXPECT_EQ(job.sent({8, 4, 0, 0}), (Values{0, 10, 0, 0}));
  EXPECT_EQ(job.sent({0, 0, 0, 0}), (Values{12, 0, 0, 0}));
}

TEST(GradientDropping, CompressionOfEverythingIsMomentum) {
  Dropping plain({.kind = job::WireKind::kDgc, .share = 1, .momentum = 0.5});
  EXPECT_EQ(plain.sent({8, 4, 0, 0}), (Values{8, 4, 0, 0}));
  EXPECT_EQ(plain.sent({8, 4, 2, 0}), (Values{12, 6, 2, 0}));
  Dropping nesterov({.kind = job::WireKind::kDgc, .share = 1, .momentum = 0.5, .nesterov = true});
  EXPECT_EQ(nesterov.sent({8, 4, 0, 0}), (Values{12, 6, 0, 0}));
}

TEST(GradientDropping, CompressionScalesAWorkersGradientToItsShareOfTheNorm) {
  Dropping job({.kind = job::WireKind::kDgc, .share = 1, .clip_norm = 10}, /*workers=*/4);
  const Values sent = job.sent({0, 6, 8, 0});  // of norm 10, where 10 / sqrt(4) is allowed
  EXPECT_NEAR(sent[1], 3, 1e-5);
  EXPECT_NEAR(sent[2], 4, 1e-5);
  EXPECT_EQ(job.sent({0, 0, 1, 0}), (Values{0, 0, 1, 0}));
}

TEST(GradientDropping, RandomElementsAreDrawnAnewInEachIterationAndAllWorkersDrawTheSame) {
  const job::WireOptions wire{.kind = job::WireKind::kRandom, .share = 0.25};
  Dropping one(wire), other(wire);
  Values sums(4);
  for (int iteration = 0; iteration < 64; ++iteration) {
    const Values sent = one.sent({1, 2, 3, 4}), alike = other.sent({-4, -3, -2, -1});
    std::size_t places = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i] != 0, alike[i] != 0);
      places += sent[i] != 0;
      sums[i] += sent[i];
    }
    EXPECT_EQ(places, 1U);
  }
  // Nothing is lost: what has not been sent yet is kept, of each element less than a fifth after 64 draws of one in four.
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_LE(sums[i], 64 * static_cast<float>(i + 1));
    EXPECT_GT(sums[i], 0.8F * 64 * static_cast<float>(i + 1));
  }
}

TEST(GradientDropping, WhatIsNotFiniteIsSentAtOnceEvenIfItIsNotDrawn) {
  Dropping job({.kind = job::WireKind::kRandom, .share = 0.25});
  const float infinity = std::numeric_limits<float>::infinity();
  const Values sent = job.sent({infinity, infinity, infinity, infinity});
  EXPECT_EQ(sent, (Values{infinity, infinity, infinity, infinity}));
  EXPECT_EQ(job.sent({0, 0, 0, 0}), (Values{0, 0, 0, 0}));
}

TEST(GradientDropping, AWarmUpSendsMoreAtFirst) {
  Dropping job({.kind = job::WireKind::kDgc, .share = 0.01, .warm_up = 1});
  EXPECT_EQ(job.sent({1, 2, 3, 4}), (Values{0, 0, 0, 4}));
  Dropping all({.kind = job::WireKind::kDgc, .share = 0.5, .warm_up = 3});
  EXPECT_EQ(all.sent({1, 2, 3, 4}), (Values{0, 0, 3, 4}));
}

}  // namespace
}  // namespace paceline::exchange
