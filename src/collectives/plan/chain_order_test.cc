#include "collectives/plan/chain_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "collectives/plan/plan_check.h"
#include "collectives/plan/route.h"

namespace paceline::collectives {
namespace {

// Seconds per byte of every link, from each host's own: a link is as slow as its slower end.
std::vector<double> of_hosts(const std::vector<double>& hosts) {
  std::vector<double> links;
  for (const double a : hosts) {
    for (const double b : hosts) links.push_back(std::max(a, b));
  }
  return links;
}

LinkRates rates_of(int ranks, const std::vector<double>& links) { return LinkRates::make(ranks, links).value(); }

LinkRates hosts(const std::vector<double>& each) { return rates_of(static_cast<int>(each.size()), of_hosts(each)); }

LinkRates random_rates(std::mt19937& random, int ranks) {
  std::vector<double> links(static_cast<std::size_t>(ranks * ranks));
  const bool of_host = random() % 2 == 0;
  for (double& link : links) link = 1e-9 * std::pow(LinkRates::kStep, static_cast<double>(random() % 6));
  if (of_host) links = of_hosts({links.begin(), links.begin() + ranks});
  return rates_of(ranks, links);
}

// The objective written down once more: streams that pass a port or a link, for each byte of the message.
ChainSeconds believed(Operation operation, const std::vector<int>& order, const LinkRates& rates) {
  ChainSeconds seconds;
  const bool both_ways = operation == Operation::kAllreduce;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool inner = i > 0 && i + 1 < order.size();
    const double in_and_out = inner && both_ways ? 2 : 1;
    seconds.flow = std::max(seconds.flow, in_and_out * rates.port(order[i]));
    if (i + 1 == order.size()) break;
    const double link = rates.link(order[i], order[i + 1]);
    seconds.flow = std::max(seconds.flow, link);
    seconds.fill += (both_ways ? 2 : 1) * link;
  }
  return seconds;
}

TEST(ChainOrder, IsTheBestOfAllPermutations) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const int ranks = std::uniform_int_distribution<int>(3, 7)(random);
    const int root = std::uniform_int_distribution<int>(0, ranks - 1)(random);
    const LinkRates rates = random_rates(random, ranks);
    for (const Operation operation : {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce}) {
      std::vector<int> order(static_cast<std::size_t>(ranks));
      std::iota(order.begin(), order.end(), 0);
      ChainSeconds least{1, 1};
      do {
        if (operation == Operation::kBroadcast && order.front() != root) continue;
        if (operation == Operation::kReduce && order.back() != root) continue;
        const ChainSeconds seconds = believed(operation, order, rates);
        const bool faster = seconds.flow < least.flow * (1 - 1e-9);
        if (faster || (seconds.flow < least.flow * (1 + 1e-9) && seconds.fill < least.fill)) least = seconds;
      } while (std::next_permutation(order.begin(), order.end()));
      const auto best = best_order(operation, root, rates);
      const ChainSeconds found = chain_seconds(operation, best, rates);
      ASSERT_NEAR(found.flow, least.flow, 1e-8 * least.flow) << to_string(operation) << " seed " << seed;
      ASSERT_NEAR(found.fill, least.fill, 1e-8 * least.fill) << to_string(operation) << " seed " << seed;
      const PlanRequest request{operation, Algorithm::kLinearPipeline, ranks, 10, 3, operation == Operation::kAllreduce ? 0 : root,
                                best};
      const Status right = check_plan(make_plan(request).value());
      ASSERT_TRUE(right.ok()) << right.message() << " seed " << seed;
    }
  }
}

TEST(ChainOrder, AMergedAllreducePutsASlowHostAtAnEndWhereItCarriesHalf) {
  for (int slow = 0; slow < 5; ++slow) {
    std::vector<double> each(5, 8e-9);
    each[static_cast<std::size_t>(slow)] = 32e-9;
    const LinkRates rates = hosts(each);
    const auto order = best_order(Operation::kAllreduce, 0, rates);
    EXPECT_TRUE(order.front() == slow || order.back() == slow) << fmt::format("{}", order);
    const double carried = chain_seconds(Operation::kAllreduce, order, rates).flow;
    EXPECT_NEAR(carried, 32e-9, 0.15 * 32e-9);
    auto middle = order;
    middle.erase(std::find(middle.begin(), middle.end(), slow));
    middle.insert(middle.begin() + 2, slow);
    EXPECT_NEAR(chain_seconds(Operation::kAllreduce, middle, rates).flow, 2 * carried, 1e-12);
  }
}

TEST(ChainOrder, ABroadcastLeavesASlowHostToTheLastAndAReduceBeginsWithIt) {
  const LinkRates rates = hosts({8e-9, 32e-9, 8e-9, 8e-9});
  EXPECT_EQ(best_order(Operation::kBroadcast, 0, rates), (std::vector<int>{0, 2, 3, 1}));
  EXPECT_EQ(best_order(Operation::kBroadcast, 3, rates), (std::vector<int>{3, 0, 2, 1}));
  EXPECT_EQ(best_order(Operation::kReduce, 3, rates), (std::vector<int>{1, 0, 2, 3}));
  EXPECT_EQ(best_order(Operation::kAllreduce, 0, rates), (std::vector<int>{0, 2, 3, 1}));
}

TEST(ChainOrder, TwoRacksAreCrossedOnce) {
  constexpr int kRanks = 6;
  std::vector<double> links;
  for (int a = 0; a < kRanks; ++a) {
    for (int b = 0; b < kRanks; ++b) links.push_back(a % 2 == b % 2 ? 8e-9 : 40e-9);
  }
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce}) {
    const auto order = best_order(operation, 2, rates_of(kRanks, links));
    int crossings = 0;
    for (std::size_t i = 1; i < order.size(); ++i) crossings += order[i] % 2 == order[i - 1] % 2 ? 0 : 1;
    EXPECT_EQ(crossings, 1) << fmt::format("{}", order);
  }
}

TEST(ChainOrder, StaysTheRanksOwnWhereNoOtherIsBetter) {
  for (int ranks = 1; ranks <= 20; ++ranks) {
    const LinkRates alike = hosts(std::vector<double>(static_cast<std::size_t>(ranks), 8e-9));
    for (const Operation operation : {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce}) {
      for (const int root : {0, ranks / 2, ranks - 1})
        EXPECT_EQ(best_order(operation, root, alike), own_order(operation, ranks, root)) << ranks << " ranks, root " << root;
    }
  }
  EXPECT_EQ(best_order(Operation::kAllreduce, 0, hosts({8e-9, 8e-9, 8e-9, 32e-9})), (std::vector<int>{0, 1, 2, 3}));
}

TEST(ChainOrder, ManyHostsOfSeveralSpeedsHaveTheSlowestTwoAtTheEnds) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    std::vector<double> each(static_cast<std::size_t>(kMostRanksExact + 1) + random() % 8, 8e-9);
    for (double& host : each) host *= std::pow(LinkRates::kStep, static_cast<double>(random() % 5));
    const LinkRates rates = hosts(each);
    std::vector<double> ports;
    for (int rank = 0; rank < rates.ranks(); ++rank) ports.push_back(rates.port(rank));
    std::sort(ports.rbegin(), ports.rend());
    const auto order = best_order(Operation::kAllreduce, 0, rates);
    EXPECT_NEAR(chain_seconds(Operation::kAllreduce, order, rates).flow, std::max(ports[0], 2 * ports[2]), 1e-15)
        << "seed " << seed;
    const auto own = own_order(Operation::kBroadcast, rates.ranks(), 1);
    const auto chain = best_order(Operation::kBroadcast, 1, rates);
    EXPECT_EQ(chain.front(), 1);
    EXPECT_LE(chain_seconds(Operation::kBroadcast, chain, rates).fill, chain_seconds(Operation::kBroadcast, own, rates).fill);
  }
}

TEST(LinkRates, WhatAMeasurementScattersIsNoDifference) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> scatter(1, 1.35);
  std::vector<double> links(25);
  for (double& link : links) link = 8e-9 * scatter(random);
  EXPECT_FALSE(rates_of(5, links).differ());
  links[3 * 5 + 1] = 8e-9 * 1.8;  // one direction of one link
  EXPECT_TRUE(rates_of(5, links).differ());
  EXPECT_EQ(rates_of(5, links).link(1, 3), rates_of(5, links).link(3, 1));
  EXPECT_FALSE(rates_of(1, {0}).differ());
}

TEST(LinkRates, AreScaledToWhatTheSlowestLinkOfTheRanksChainTakes) {
  const LinkRates rates = hosts({1, 4, 1, 1}).scaled_to(30e-9);
  EXPECT_NEAR(rates.link(0, 1), 30e-9, 1e-15);
  EXPECT_NEAR(rates.link(0, 2), 30e-9 / 4, 0.13 * 30e-9 / 4);
  EXPECT_EQ(rates.port(1), rates.link(0, 1));
  EXPECT_EQ(rates.port(3), rates.link(0, 3));
  const std::vector<int> some = {0, 2, 3};
  EXPECT_FALSE(rates.between(some).differ());
  EXPECT_EQ(rates.between(some).link(0, 1), rates.link(0, 2));
}

TEST(LinkRates, NameTheSlowRanks) {
  EXPECT_EQ(hosts({8e-9, 8e-9, 32e-9, 8e-9}).scaled_to(32e-9).text().find("rank 2 has links of 31.2 MB/s, the others of up to 1"),
            0U)
      << hosts({8e-9, 8e-9, 32e-9, 8e-9}).scaled_to(32e-9).text();
  EXPECT_NE(hosts({8e-9, 8e-9, 32e-9, 16e-9}).text().find("ranks 2 3 have links of up to "), std::string::npos);
  EXPECT_EQ(rates_of(4, {0, 1, 9, 9, 1, 0, 9, 9, 9, 9, 0, 1, 9, 9, 1, 0}).text().find("links have "), 0U);
}

TEST(LinkRates, RefusesWhatIsNoRate) {
  EXPECT_FALSE(LinkRates::make(0, {}).ok());
  EXPECT_FALSE(LinkRates::make(2, std::vector<double>{0, 1, 1}).ok());
  EXPECT_FALSE(LinkRates::make(2, std::vector<double>{0, 1, 0, 0}).ok());
  EXPECT_FALSE(LinkRates::make(2, std::vector<double>{0, 1, std::nan(""), 0}).ok());
}

TEST(Route, LinksThatAreAlikeCostWhatTheClosedFormsCharge) {
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
    for (const int ranks : {4, 8, 16}) {
      const Route route = route_of(operation, ranks / 2, hosts(std::vector<double>(static_cast<std::size_t>(ranks), 8e-9)));
      EXPECT_TRUE(route.order.empty());
      CollectiveProblem problem{operation, ranks, Bytes{5'000'000}, {30e-6, 8e-9, 0.3e-9}};
      CollectiveProblem priced = problem;
      priced.link.beta = 1;  // does not count
      priced.prices = &route.prices;
      for (const Algorithm algorithm : algorithms_for(operation)) {
        const double closed = cost_of(problem, algorithm)->seconds;
        EXPECT_NEAR(cost_of(priced, algorithm)->seconds, closed, 1e-6 * closed)
            << to_string(operation) << " by " << to_string(algorithm) << " of " << ranks;
      }
    }
  }
}

TEST(Route, WithASlowHostTheChainTakesAnAllreduceFromTheRing) {
  const cost::LinkCost link{30e-6, 32e-9, 0.2e-9};
  const Route route = route_of(Operation::kAllreduce, 0, hosts({8e-9, 32e-9, 8e-9, 8e-9}).scaled_to(link.beta));
  CollectiveProblem problem{Operation::kAllreduce, 4, Bytes{64'000'000}, link};
  EXPECT_NE(cheapest(problem)->algorithm, Algorithm::kLinearPipeline);
  problem.prices = &route.prices;
  EXPECT_EQ(cheapest(problem)->algorithm, Algorithm::kLinearPipeline);
  EXPECT_EQ(route.order, (std::vector<int>{0, 2, 3, 1}));
  EXPECT_NE(route.why.find("rank 1 "), std::string::npos);
}

TEST(Route, AFasterBlockThanTheBestIsNotToBeFound) {
  const Route route = route_of(Operation::kAllreduce, 0, hosts({8e-9, 32e-9, 8e-9, 8e-9, 20e-9}));
  const CollectiveProblem problem{Operation::kAllreduce, 5, Bytes{4'000'000}, {30e-6, 0, 0.2e-9}, &route.prices};
  const double best = cost_of(problem, Algorithm::kLinearPipeline)->seconds;
  for (std::int64_t block = 1'000; block < 4'000'000; block += block / 7)
    EXPECT_LE(best, cost_of(problem, Algorithm::kLinearPipeline, Bytes{block})->seconds * (1 + 1e-6)) << block;
}

}  // namespace
}  // namespace paceline::collectives
