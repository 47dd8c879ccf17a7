#include "cost/lower_bound.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::cost {
namespace {

// The formula of the design, term by term, with every sum taken anew.
LowerBound literally(const std::vector<LayerLoad>& layers, std::int64_t nodes, double link) {
  const double n = static_cast<double>(nodes);
  double computation = 0, bytes = 0, tail = 0;
  for (const LayerLoad& layer : layers) {
    computation += layer.forward + layer.backward;
    bytes += static_cast<double>(layer.size.count);
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    double later = 0, earlier = 0;
    for (std::size_t i = l; i < layers.size(); ++i) later += layers[i].forward + layers[i].backward;
    for (std::size_t i = 0; i <= l; ++i) earlier += static_cast<double>(layers[i].size.count);
    tail = std::max(tail, later + 2 * (n - 1) / n * earlier / link);
  }
  const double transfer = 2 * (n - 1) / n * bytes / link;
  return {std::max({computation, transfer, tail}), computation, transfer, tail};
}

int below(std::mt19937& random, int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); }

TEST(LowerBound, AgreesWithTheFormulaTakenLiterally) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::vector<LayerLoad> layers(static_cast<std::size_t>(below(random, 9)));
    for (LayerLoad& layer : layers) layer = {Bytes{below(random, 5) * 1000}, 0.25 * below(random, 4), 0.25 * below(random, 4)};
    const std::int64_t nodes = 1 + below(random, 9);
    const double link = 1000.0 * (1 + below(random, 4));
    const LowerBound expected = literally(layers, nodes, link);
    const LowerBound found = iteration_lower_bound(layers, nodes, {link});
    EXPECT_NEAR(found.lower_bound, expected.lower_bound, 1e-12) << "seed " << seed;
    EXPECT_NEAR(found.computation, expected.computation, 1e-12) << "seed " << seed;
    EXPECT_NEAR(found.transfer, expected.transfer, 1e-12) << "seed " << seed;
    EXPECT_NEAR(found.tail, expected.tail, 1e-12) << "seed " << seed;
  }
}

TEST(LowerBound, TheTailCountsTheFirstLayersBytesAfterAllComputation) {
  // A huge first layer: its gradient comes last, so its transfer cannot hide behind anything.
  const std::vector<LayerLoad> layers = {{Bytes{4000}, 1, 2}, {Bytes{0}, 3, 4}};
  const LowerBound bound = iteration_lower_bound(layers, 2, {1000});
  EXPECT_EQ(bound.computation, 10);
  EXPECT_EQ(bound.transfer, 4);
  EXPECT_EQ(bound.tail, 14);
  EXPECT_EQ(bound.lower_bound, 14);
}

TEST(LowerBound, OneNodeOnlyComputes) {
  const std::vector<LayerLoad> layers = {{Bytes{1'000'000}, 1, 2}, {Bytes{1'000'000}, 1, 2}};
  const LowerBound bound = iteration_lower_bound(layers, 1, {1});
  EXPECT_EQ(bound.lower_bound, 6);
  EXPECT_EQ(bound.transfer, 0);
}

TEST(LowerBound, NothingTakesNoTime) { EXPECT_EQ(iteration_lower_bound({}, 8, {1}).lower_bound, 0); }

}  // namespace
}  // namespace paceline::cost
