#include "cost/link_fit.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cost {
namespace {

using ::testing::HasSubstr;

LinkSample sample(std::int64_t bytes, double time) { return {{bytes}, from_seconds(time)}; }

// What the fit minimises, of one sample for each size.
double error_of(const std::vector<LinkSample>& samples, double start_up, double bandwidth) {
  double sum = 0;
  for (const LinkSample& s : samples) {
    const double fitted = start_up + static_cast<double>(s.bytes.count) / bandwidth;
    sum += std::pow((fitted - seconds(s.time)) / seconds(s.time), 2);
  }
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

TEST(LinkFit, ExactTimesGiveTheLinkBack) {
  for (const double start_up : {0.0, 1e-5, 0.003}) {
    for (const double bandwidth : {1e6, 117e6, 3e9}) {
      std::vector<LinkSample> samples;
      for (const std::int64_t bytes : {0, 4096, 65536, 1 << 20, 1 << 24}) {
        if (bytes == 0 && start_up == 0) continue;
        samples.push_back(sample(bytes, start_up + static_cast<double>(bytes) / bandwidth));
      }
      const auto fit = fit_link(samples);
      ASSERT_TRUE(fit.ok()) << fit.status().message();
      EXPECT_NEAR(fit->start_up, start_up, 2e-8);
      EXPECT_NEAR(fit->bandwidth.value / bandwidth, 1, 1e-3);
      EXPECT_LT(fit->residual, 1e-3);
    }
  }
}

TEST(LinkFit, AMessageThatWasHeldUpDoesNotCount) {
  std::vector<LinkSample> samples;
  for (const std::int64_t bytes : {1000, 100'000, 1'000'000}) {
    const double time = 1e-4 + static_cast<double>(bytes) / 1e8;
    for (const double factor : {1.0, 1.0, 50.0, 1.0, 30.0}) samples.push_back(sample(bytes, time * factor));
  }
  std::ranges::reverse(samples);
  const auto fit = fit_link(samples);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->start_up, 1e-4, 1e-7);
  EXPECT_NEAR(fit->bandwidth.value, 1e8, 1e5);
}

// The error is convex in (start_up, 1 / bandwidth), so a point that no neighbour at any distance improves on is the best one.
TEST(LinkFit, NothingElseFitsNoisyTimesBetter) {
  int at_zero = 0, flat = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto uniform = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
    const double start_up = uniform(0, 1) < 0.3 ? 0 : std::pow(10, uniform(-5, -3)), bandwidth = std::pow(10, uniform(6, 9));
    std::vector<LinkSample> samples;
    std::int64_t bytes = 1000;
    for (int i = std::uniform_int_distribution(2, 7)(random); i > 0; --i) {
      samples.push_back(sample(bytes, (start_up + static_cast<double>(bytes) / bandwidth) * uniform(0.8, 1.25)));
      bytes = static_cast<std::int64_t>(static_cast<double>(bytes) * uniform(2, 9));
    }
    const auto fit = fit_link(samples);
    if (!fit.ok()) {  // so little beside the start-up that the noise hides it
      EXPECT_THAT(fit.status().message(), HasSubstr("do not grow"));
      EXPECT_LT(static_cast<double>(samples.back().bytes.count) / bandwidth, start_up) << "seed " << seed;
      ++flat;
      continue;
    }
    EXPECT_NEAR(fit->residual, error_of(samples, fit->start_up, fit->bandwidth.value), 1e-9) << "seed " << seed;
    at_zero += fit->start_up == 0 ? 1 : 0;
    for (const double step : {0.5, 0.1, 0.01, 0.001}) {
      for (const double da : {-1.0, 0.0, 1.0}) {
        for (const double db : {-1.0, 0.0, 1.0}) {
          const double a = std::max(0.0, fit->start_up + da * step * 1e-3), b = fit->bandwidth.value / (1 + db * step);
          EXPECT_GE(error_of(samples, a, b), fit->residual - 1e-9) << "seed " << seed;
        }
      }
    }
  }
  EXPECT_GT(at_zero, 100);
  EXPECT_LT(at_zero, 1900);
  EXPECT_LT(flat, 200);
}

TEST(LinkFit, SamplesThatSayNothingAreRefused) {
  const auto refused = [](const std::vector<LinkSample>& samples) { return fit_link(samples).status().message(); };
  EXPECT_THAT(refused({}), HasSubstr("no size"));
  EXPECT_THAT(refused({sample(5, 1), sample(5, 2)}), HasSubstr("one size"));
  EXPECT_THAT(refused({sample(-1, 1), sample(5, 2)}), HasSubstr("-1 bytes"));
  EXPECT_THAT(refused({sample(1, 0), sample(5, 2)}), HasSubstr("0 ns"));
  EXPECT_THAT(refused({sample(100, 2), sample(1000, 1)}), HasSubstr("do not grow"));
  EXPECT_THAT(refused({sample(100, 1), sample(1000, 1)}), HasSubstr("do not grow"));
}

}  // namespace
}  // namespace paceline::cost
