#include "planner/sizing/algorithm_choice.h"

#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Layers = std::vector<std::vector<AlgorithmCost>>;

std::int64_t whole(std::mt19937_64& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

Layers random_layers(std::mt19937_64& random, std::int64_t most_layers, std::int64_t most_algorithms, std::int64_t most_memory) {
  Layers layers(static_cast<std::size_t>(whole(random, 1, most_layers)));
  const bool reals = whole(random, 0, 1) == 1;
  for (auto& layer : layers) {
    layer.resize(static_cast<std::size_t>(whole(random, 1, most_algorithms)));
    for (AlgorithmCost& cost : layer) {
      cost.time = reals ? std::uniform_real_distribution<double>(0, 1)(random) : static_cast<double>(whole(random, 0, 20));
      cost.memory = static_cast<double>(whole(random, 0, most_memory));
    }
  }
  return layers;
}

// Least time with memory of at most m, for each m up to the bound.
double least_time(const Layers& layers, std::int64_t bound) {
  const double never = std::numeric_limits<double>::infinity();
  std::vector<double> best(static_cast<std::size_t>(bound + 1), 0);
  for (const auto& layer : layers) {
    std::vector<double> next(best.size(), never);
    for (std::int64_t m = 0; m <= bound; ++m) {
      for (const AlgorithmCost& cost : layer) {
        const auto memory = static_cast<std::int64_t>(cost.memory);
        if (memory > m) continue;
        double& value = next[static_cast<std::size_t>(m)];
        value = std::min(value, best[static_cast<std::size_t>(m - memory)] + cost.time);
      }
    }
    best = next;
  }
  return best.back();
}

// The choice is what it says it is.
void expect_consistent(const AlgorithmChoice& choice, const Layers& layers, double bound) {
  ASSERT_EQ(choice.choice.size(), layers.size());
  double time = 0;
  double memory = 0;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const AlgorithmCost& cost = layers[k].at(static_cast<std::size_t>(choice.choice[k]));
    time += cost.time;
    memory += cost.memory;
  }
  EXPECT_NEAR(choice.time, time, 1e-12 * (1 + time));
  EXPECT_EQ(choice.memory, memory);
  EXPECT_LE(memory, bound);
}

TEST(ChooseAlgorithms, ReachesTheLeastTimeOfDynamicProgramming) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    std::mt19937_64 random(seed);
    const Layers layers = random_layers(random, 7, 6, 30);
    const std::int64_t bound = whole(random, 0, 90);
    const double best = least_time(layers, bound);
    const auto choice = choose_algorithms(layers, static_cast<double>(bound));
    ASSERT_TRUE(choice.ok()) << "seed " << seed << ": " << choice.status().message();
    ASSERT_EQ(choice->feasible, std::isfinite(best)) << "seed " << seed;
    if (!choice->feasible) continue;
    expect_consistent(*choice, layers, static_cast<double>(bound));
    ASSERT_NEAR(choice->time, best, 1e-12 * (1 + best)) << "seed " << seed;
  }
}

TEST(ChooseAlgorithms, KeepsTheBoundToTheLastByte) {
  // The faster pair needs one byte more than 12 GiB leave; relative to the bound that is 1e-11, far below a solver's tolerance.
  const double half = 6.0 * (1 << 30) * 8;
  const Layers layers = {{{3, 0}, {1, half}}, {{2.5, 0}, {1, half + 1}}, {{5, 0}, {4.5, 7}}};
  const AlgorithmChoice tight = choose_algorithms(layers, 2 * half).value();
  EXPECT_THAT(tight.choice, ElementsAre(1, 0, 1));
  EXPECT_EQ(tight.time, 8);
  EXPECT_THAT(choose_algorithms(layers, 2 * half + 1)->choice, ElementsAre(1, 1, 0));
  EXPECT_THAT(choose_algorithms(layers, 2 * half + 8)->choice, ElementsAre(1, 1, 1));
}

TEST(ChooseAlgorithms, TellsTimesApartThatDifferInTheTenthDigit) {
  const Layers layers = {{{1, 0}, {1 - 1e-10, 5}}, {{1, 0}, {1 - 2e-10, 5}}, {{100, 0}, {1, 5}}};
  EXPECT_THAT(choose_algorithms(layers, 10)->choice, ElementsAre(0, 1, 1));
}

TEST(ChooseAlgorithms, TakesTheFastestWhereAllFit) {
  EXPECT_THAT(choose_algorithms({{{2, 1}, {1, 9}}, {{1, 4}, {3, 0}}}, 13)->choice, ElementsAre(1, 0));
}

TEST(ChooseAlgorithms, OfEqualCostsTakesTheFirst) {
  EXPECT_THAT(choose_algorithms({{{5, 5}, {2, 3}, {2, 3}, {2, 4}}}, 4)->choice, ElementsAre(1));
}

TEST(ChooseAlgorithms, ABoundThatTheSmallestChoicesFillLeavesNothing) {
  const AlgorithmChoice choice = choose_algorithms({{{9, 2}, {1, 3}}, {{9, 5}, {1, 6}}}, 7).value();
  EXPECT_THAT(choice.choice, ElementsAre(0, 0));
  EXPECT_EQ(choice.memory, 7);
}

TEST(ChooseAlgorithms, SaysByHowMuchItDoesNotFitAndWhichLayerNeedsMost) {
  const AlgorithmChoice choice = choose_algorithms({{{1, 10}}, {{1, 40}, {2, 30}}, {{1, 5}}}, 40).value();
  EXPECT_FALSE(choice.feasible);
  EXPECT_THAT(choice.reason, HasSubstr("need 45, 5 more than the bound of 40; layer 2 needs most, at least 30"));
}

TEST(ChooseAlgorithms, NoLayersNeedNothing) {
  const AlgorithmChoice choice = choose_algorithms({}, 0).value();
  EXPECT_TRUE(choice.feasible);
  EXPECT_THAT(choice.choice, IsEmpty());
  EXPECT_EQ(choice.time, 0);
}

TEST(ChooseAlgorithms, FractionsOfMemoryAreLegal) {
  EXPECT_THAT(choose_algorithms({{{1, 0.5}, {2, 0.25}}, {{1, 0.5}, {3, 0.125}}}, 0.75)->choice, ElementsAre(1, 0));
}

TEST(ChooseAlgorithms, RefusesWhatIsNotAQuestion) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(choose_algorithms({{{1, 1}}, {}}, 1).status().message(), HasSubstr("layer 2 has no algorithms"));
  EXPECT_THAT(choose_algorithms({{{-1, 1}}}, 1).status().message(), HasSubstr("layer 1, algorithm 0: time is -1"));
  EXPECT_THAT(choose_algorithms({{{1, infinity}}}, 1).status().message(), HasSubstr("memory is inf"));
  EXPECT_THAT(choose_algorithms({}, -1).status().message(), HasSubstr("bound is -1"));
}

TEST(ChooseAlgorithms, SolvesAHundredLayersOfEightWithinTheBound) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    std::mt19937_64 random(seed);
    Layers layers(120);
    double least = 0;
    for (auto& layer : layers) {
      for (int l = 0; l < 8; ++l) {
        const double memory = static_cast<double>(whole(random, 0, 500));
        layer.push_back({1e-3 * std::uniform_real_distribution<double>(0.5, 1.5)(random) * (800 - memory), memory});
      }
      least +=
          std::min_element(layer.begin(), layer.end(), [](const auto& a, const auto& b) { return a.memory < b.memory; })->memory;
    }
    const std::int64_t bound = static_cast<std::int64_t>(least) + 8'000;
    const AlgorithmChoice choice = choose_algorithms(layers, static_cast<double>(bound)).value();
    expect_consistent(choice, layers, static_cast<double>(bound));
    EXPECT_NEAR(choice.time, least_time(layers, bound), 1e-9 * choice.time) << "seed " << seed;
  }
}

TEST(ChooseAlgorithms, SolvesTimesThatFallAlmostInProportionToMemory) {
  // Branch and bound alone takes a minute for these.
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    std::mt19937_64 random(seed);
    Layers layers(100);
    double least = 0;
    for (auto& layer : layers) {
      for (int l = 0; l < 8; ++l) {
        const double memory = static_cast<double>(whole(random, 0, 400));
        layer.push_back({std::floor((400 - memory) / 10) + static_cast<double>(whole(random, 0, 2)), memory});
      }
      least +=
          std::min_element(layer.begin(), layer.end(), [](const auto& a, const auto& b) { return a.memory < b.memory; })->memory;
    }
    const std::int64_t bound = static_cast<std::int64_t>(least) + 6'000;
    const AlgorithmChoice choice = choose_algorithms(layers, static_cast<double>(bound)).value();
    expect_consistent(choice, layers, static_cast<double>(bound));
    EXPECT_EQ(choice.gap, 0);
    EXPECT_EQ(choice.time, least_time(layers, bound)) << "seed " << seed;
  }
}

TEST(ChooseAlgorithms, AdmitsAGapWhereEveryByteCountsTheSame) {
  std::mt19937_64 random(7);
  Layers layers(60);
  double least = 0;
  for (auto& layer : layers) {
    double smallest = 4e9;
    for (int l = 0; l < 8; ++l) {
      const double memory = static_cast<double>(whole(random, 0, 4'000'000'000));
      layer.push_back({4e9 - memory, memory});
      smallest = std::min(smallest, memory);
    }
    least += smallest;
  }
  const double bound = least + 5e10;
  const AlgorithmChoice choice = choose_algorithms(layers, bound).value();
  expect_consistent(choice, layers, bound);
  EXPECT_GT(choice.gap, 0);
  EXPECT_LT(choice.gap, 1e-3);
}

}  // namespace
}  // namespace paceline::planner
