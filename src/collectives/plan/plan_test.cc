#include "collectives/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/plan/plan_check.h"
#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

std::string shown(const PlanRequest& r) {
  return fmt::format("{} {} ranks {} elements {} block {} root {}", to_string(r.operation), to_string(r.algorithm), r.ranks,
                     r.elements, r.block, r.root);
}

void for_each_kind(const std::function<void(Operation, Algorithm)>& visit) {
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
    for (const Algorithm algorithm : algorithms_for(operation)) visit(operation, algorithm);
  }
}

// Which ranks' beginnings a rank knows of when its steps are over: whoever receives learns what the sender knew before the round.
bool everybody_hears_of_everybody(const CollectivePlan& plan) {
  const std::size_t ranks = plan.ranks.size();
  std::vector<std::set<int>> known(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) known[rank] = {static_cast<int>(rank)};
  for (std::int64_t round = 0; round < plan.rounds; ++round) {
    const auto before = known;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const Step& step : plan.ranks[rank].steps) {
        if (step.kind != StepKind::kSend || step.round != round) continue;
        known[static_cast<std::size_t>(step.peer)].insert(before[rank].begin(), before[rank].end());
      }
    }
  }
  return std::ranges::all_of(known, [&](const std::set<int>& some) { return some.size() == ranks; });
}

TEST(Plan, WaitsForAllIsSaidOnlyWhereSomethingOfEachRankReachesAll) {
  int said = 0;
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (int ranks = 2; ranks <= 17; ++ranks) {
        for (const std::int64_t elements : {0, 1, 3, ranks - 1, ranks, ranks + 1, 100}) {
          const PlanRequest request{operation, algorithm, ranks, elements, 2, 0};
          if (!waits_for_all(request)) continue;
          ++said;
          EXPECT_TRUE(everybody_hears_of_everybody(make_plan(request).value()))
              << to_string(operation) << " by " << to_string(algorithm) << ", " << ranks << " ranks, " << elements << " elements";
        }
      }
    }
  }
  EXPECT_GT(said, 300);
}

TEST(Plan, EveryContributionArrivesExactlyOnceForAllRanksAndBlocks) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (std::int64_t blocks = 1; blocks <= 64; ++blocks) {
      for (const Operation operation : {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce}) {
        const PlanRequest request{operation, Algorithm::kLinearPipeline, ranks, blocks, 1, 0};
        const auto plan = make_plan(request);
        ASSERT_TRUE(plan.ok()) << shown(request);
        const Status status = check_plan(*plan);
        ASSERT_TRUE(status.ok()) << shown(request) << ": " << status.message();
      }
    }
  }
}

TEST(Plan, EveryAlgorithmIsRightForAnyElementsFromNoneToMoreThanRanks) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (std::int64_t elements = 0; elements <= 40; elements += elements < 20 ? 1 : 7) {
        for (const std::int64_t block : {std::int64_t{1}, std::int64_t{3}, std::int64_t{100}}) {
          const PlanRequest request{operation, algorithm, ranks, elements, block, 0};
          const auto plan = make_plan(request);
          ASSERT_TRUE(plan.ok()) << shown(request);
          const Status status = check_plan(*plan);
          ASSERT_TRUE(status.ok()) << shown(request) << ": " << status.message();
          if (!has_blocks(algorithm)) break;
        }
      }
    }
  });
}

TEST(Plan, AnyRankCanBeTheRoot) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    if (operation != Operation::kBroadcast && operation != Operation::kReduce) return;
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (int root = 0; root < ranks; ++root) {
        const PlanRequest request{operation, algorithm, ranks, 13, 4, root};
        const Status status = check_plan(make_plan(request).value());
        ASSERT_TRUE(status.ok()) << shown(request) << ": " << status.message();
      }
    }
  });
}

TEST(Plan, TheChainMayStandInAnyOrder) {
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce}) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      std::mt19937 random(seed);
      const int ranks = std::uniform_int_distribution<int>(1, 9)(random);
      PlanRequest request{operation, Algorithm::kLinearPipeline, ranks, 13, 4, 0};
      const PlanTraffic own = traffic_of(make_plan(request).value());
      request.order.resize(static_cast<std::size_t>(ranks));
      std::iota(request.order.begin(), request.order.end(), 0);
      std::shuffle(request.order.begin(), request.order.end(), random);
      if (operation == Operation::kBroadcast) request.root = request.order.front();
      if (operation == Operation::kReduce) request.root = request.order.back();
      const auto plan = make_plan(request);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const Status status = check_plan(*plan);
      ASSERT_TRUE(status.ok()) << shown(request) << " seed " << seed << ": " << status.message();
      const PlanTraffic traffic = traffic_of(*plan);
      EXPECT_EQ(traffic.rounds, own.rounds);
      EXPECT_EQ(traffic.serial_sent, own.serial_sent);
      // Every message passes between neighbours of the chain.
      for (std::size_t i = 0; i < request.order.size(); ++i) {
        for (const Step& step : plan->ranks[static_cast<std::size_t>(request.order[i])].steps) {
          if (step.kind != StepKind::kSend) continue;
          const bool before = i > 0 && request.order[i - 1] == step.peer;
          EXPECT_TRUE(before || (i + 1 < request.order.size() && request.order[i + 1] == step.peer)) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Plan, RefusesAnOrderThatIsNone) {
  const auto message = [](const PlanRequest& request) { return make_plan(request).status().message(); };
  const auto pipeline = Algorithm::kLinearPipeline;
  EXPECT_NE(message({Operation::kAllreduce, Algorithm::kRing, 3, 9, 1, 0, {0, 1, 2}}).find("ring has no chain"), std::string::npos);
  EXPECT_NE(message({Operation::kAllreduce, pipeline, 3, 9, 1, 0, {0, 1}}).find("does not name each of 3"), std::string::npos);
  EXPECT_NE(message({Operation::kAllreduce, pipeline, 3, 9, 1, 0, {0, 2, 2}}).find("does not name each of 3"), std::string::npos);
  EXPECT_NE(message({Operation::kBroadcast, pipeline, 3, 9, 1, 1, {0, 1, 2}}).find("begin with the root, 1"), std::string::npos);
  EXPECT_NE(message({Operation::kReduce, pipeline, 3, 9, 1, 1, {1, 0, 2}}).find("end with the root, 1"), std::string::npos);
}

TEST(Plan, RoundsAreThoseOfTheClosedForm) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      const PlanRequest request{operation, algorithm, ranks, 64 * ranks, 5, 0};
      const auto plan = make_plan(request).value();
      const auto cost = cost_of({operation, ranks, Bytes{request.elements}, {}}, algorithm, Bytes{5}).value();
      EXPECT_EQ(plan.rounds, cost.steps) << shown(request);
      std::int64_t last = 0;
      for (const RankPlan& rank : plan.ranks) {
        if (!rank.steps.empty()) last = std::max(last, rank.steps.back().round + 1);
      }
      EXPECT_EQ(last, cost.steps) << "the last round is used, " << shown(request);
    }
  });
}

TEST(Plan, TheMergedAllreduceOfThreeRanksAndFourBlocksTakesNineSteps) {
  EXPECT_EQ(make_plan({Operation::kAllreduce, Algorithm::kLinearPipeline, 3, 4, 1, 0})->rounds, 9);
  const auto reduce = make_plan({Operation::kReduce, Algorithm::kLinearPipeline, 3, 4, 1, 2})->rounds;
  const auto broadcast = make_plan({Operation::kBroadcast, Algorithm::kLinearPipeline, 3, 4, 1, 2})->rounds;
  EXPECT_EQ(reduce + broadcast, 10);
}

// What the closed form charges: bytes with alpha = gamma = 0 and beta = 1; reductions with gamma = 1.
double charged(const PlanRequest& request, double beta, double gamma) {
  return cost_of({request.operation, request.ranks, Bytes{request.elements}, {0, beta, gamma}}, request.algorithm,
                 Bytes{request.block})
      ->seconds;
}

TEST(Plan, BytesAndReductionsAreThoseOfTheClosedForm) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    for (int ranks = 2; ranks <= 17; ++ranks) {
      const PlanRequest request{operation, algorithm, ranks, 48 * ranks, 4, 0};
      const PlanTraffic traffic = traffic_of(make_plan(request).value());
      if (has_blocks(algorithm)) {
        // The closed form counts n/b + p - 1 blocks on the way; whole steps are one fewer, and the merged allreduce saves more.
        EXPECT_EQ(traffic.serial_sent, traffic.rounds * request.block) << shown(request);
        EXPECT_LE(static_cast<double>(traffic.serial_sent), charged(request, 1, 0)) << shown(request);
        // (Two ranks use both directions at once throughout, where the closed form charges both.)
        const double both_ways = operation == Operation::kAllreduce && ranks == 2 ? 2 : 1;
        EXPECT_GE(both_ways * static_cast<double>(traffic.serial_sent),
                  charged(request, 1, 0) - 5.0 * static_cast<double>(request.block))
            << shown(request);
        continue;
      }
      EXPECT_DOUBLE_EQ(static_cast<double>(traffic.serial_sent), charged(request, 1, 0)) << shown(request);
      EXPECT_DOUBLE_EQ(static_cast<double>(traffic.serial_reduced), charged(request, 0, 1)) << shown(request);
    }
  });
}

TEST(Plan, NoRankSendsMoreThanTheLinearPipelinesTwiceTheMessage) {
  for (int ranks = 3; ranks <= 17; ++ranks) {
    const PlanTraffic traffic =
        traffic_of(make_plan({Operation::kAllreduce, Algorithm::kLinearPipeline, ranks, 100, 7, 0}).value());
    EXPECT_EQ(traffic.most_sent, 200);
    const PlanTraffic ring = traffic_of(make_plan({Operation::kAllreduce, Algorithm::kRing, ranks, 16 * ranks, 1, 0}).value());
    EXPECT_EQ(ring.most_sent, 2 * (ranks - 1) * 16);
  }
}

std::vector<std::vector<float>> random_buffers(int ranks, std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(ranks), std::vector<float>(static_cast<std::size_t>(elements)));
  for (auto& buffer : buffers) {
    for (float& element : buffer) element = value(random) * std::pow(10.0F, 4 * value(random));  // sums depend on their order
  }
  return buffers;
}

std::vector<float> sum_in_rank_order(const std::vector<std::vector<float>>& buffers) {
  std::vector<float> sum = buffers[0];
  for (std::size_t rank = 1; rank < buffers.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += buffers[rank][i];
  }
  return sum;
}

TEST(Plan, PipelineAndDirectAddInRankOrderBitForBit) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    const auto buffers = random_buffers(ranks, 37, static_cast<unsigned>(ranks));
    const auto expected = sum_in_rank_order(buffers);
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (const PlanRequest& request : {PlanRequest{Operation::kReduce, Algorithm::kLinearPipeline, ranks, 37, 5, ranks - 1},
                                       PlanRequest{Operation::kAllreduce, Algorithm::kLinearPipeline, ranks, 37, 5, 0},
                                       PlanRequest{Operation::kAllreduce, Algorithm::kDirect, ranks, 37, 1, 0}}) {
      const auto plan = make_plan(request).value();
      PlanPlayer<float> player(plan, buffers, 0);
      ASSERT_TRUE(player.play(order).ok()) << shown(request);
      for (int rank = request.operation == Operation::kReduce ? ranks - 1 : 0; rank < ranks; ++rank) {
        EXPECT_EQ(player.buffer(rank), expected) << shown(request) << ", rank " << rank;
      }
    }
  }
}

TEST(Plan, TheOrderInWhichRanksRunChangesNoBit) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::mt19937 random(seed);
      const int ranks = std::uniform_int_distribution<int>(1, 11)(random);
      const PlanRequest request{operation, algorithm, ranks, 29, 4, 0};
      const auto plan = make_plan(request).value();
      const auto buffers = random_buffers(ranks, 29, seed);
      std::vector<int> order(static_cast<std::size_t>(ranks));
      std::iota(order.begin(), order.end(), 0);
      PlanPlayer<float> first(plan, buffers, 0);
      ASSERT_TRUE(first.play(order).ok());
      std::shuffle(order.begin(), order.end(), random);
      PlanPlayer<float> second(plan, buffers, 0);
      ASSERT_TRUE(second.play(order).ok());
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(first.buffer(rank), second.buffer(rank)) << shown(request) << " seed " << seed;
    }
  });
}

TEST(Plan, OneRanksPlanIsItsPartOfTheWhole) {
  const PlanRequest request{Operation::kAllreduce, Algorithm::kBidirectionalExchange, 6, 20, 1, 0};
  const auto whole = make_plan(request).value();
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(plan_of_rank(request, rank).steps.size(), whole.ranks[static_cast<std::size_t>(rank)].steps.size());
}

TEST(Plan, OneRankOrNoElementsNeedNoSteps) {
  for_each_kind([](Operation operation, Algorithm algorithm) {
    for (const PlanRequest& request :
         {PlanRequest{operation, algorithm, 1, 100, 7, 0}, PlanRequest{operation, algorithm, 8, 0, 7, 0}}) {
      const auto plan = make_plan(request).value();
      EXPECT_EQ(plan.rounds, 0) << shown(request);
      for (const RankPlan& rank : plan.ranks) EXPECT_TRUE(rank.steps.empty()) << shown(request);
    }
  });
}

TEST(Plan, RefusesRequestsThatMakeNoSense) {
  EXPECT_FALSE(make_plan({Operation::kBroadcast, Algorithm::kRing, 4, 10, 1, 0}).ok());
  EXPECT_FALSE(make_plan({Operation::kReduce, Algorithm::kDirect, 4, 10, 1, 0}).ok());
  EXPECT_FALSE(make_plan({Operation::kAllreduce, Algorithm::kRing, 0, 10, 1, 0}).ok());
  EXPECT_FALSE(make_plan({Operation::kAllreduce, Algorithm::kRing, 4, -1, 1, 0}).ok());
  EXPECT_FALSE(make_plan({Operation::kAllreduce, Algorithm::kLinearPipeline, 4, 10, 0, 0}).ok());
  EXPECT_FALSE(make_plan({Operation::kBroadcast, Algorithm::kMinimumSpanningTree, 4, 10, 1, 4}).ok());
  EXPECT_FALSE(make_plan({Operation::kBroadcast, Algorithm::kMinimumSpanningTree, 4, 10, 1, -1}).ok());
}

// ---- The check itself must be able to fail: each way of spoiling a good plan is found.

CollectivePlan good_plan() { return make_plan({Operation::kAllreduce, Algorithm::kRing, 4, 8, 1, 0}).value(); }

Step& step_of(CollectivePlan& plan, int rank, StepKind kind) {
  auto& steps = plan.ranks[static_cast<std::size_t>(rank)].steps;
  return *std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.kind == kind; });
}

void expect_found(const CollectivePlan& plan, const std::string& words) {
  const Status status = check_plan(plan);
  EXPECT_NE(status.message().find(words), std::string::npos) << "found: " << status.message();
}

TEST(PlanCheck, FindsAContributionThatIsLostOrCountedTwice) {
  CollectivePlan lost = good_plan();
  step_of(lost, 1, StepKind::kReduce).kind = StepKind::kCopy;
  expect_found(lost, "more than once of []; it must be once of [0 1 2 3]");
  CollectivePlan twice = good_plan();
  auto& steps = twice.ranks[2].steps;
  const auto reduce = std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.kind == StepKind::kReduce; });
  steps.insert(reduce, *reduce);
  expect_found(twice, "of ranks [0 1 2 3], more than once of [");
}

TEST(PlanCheck, FindsADeadlockAndAMessageThatNobodyReceives) {
  CollectivePlan silent = good_plan();
  auto& steps = silent.ranks[0].steps;
  steps.erase(std::find_if(steps.rbegin(), steps.rend(), [](const Step& step) { return step.kind == StepKind::kSend; }).base() - 1);
  expect_found(silent, "deadlock: rank 1 waits in round 5 for rank 0");
  CollectivePlan deaf = good_plan();
  deaf.ranks[3].steps.pop_back();  // its last receive
  expect_found(deaf, "rank 3 never receives");
}

TEST(PlanCheck, FindsWritingWhatIsBeingSent) {
  CollectivePlan plan = good_plan();
  step_of(plan, 0, StepKind::kReduce).to = step_of(plan, 0, StepKind::kSend).from;
  expect_found(plan, "rank 0, round 0: a reduce writes what is being sent");
}

TEST(PlanCheck, FindsStepsThatCannotBe) {
  CollectivePlan outside = good_plan();
  step_of(outside, 0, StepKind::kSend).from.range.first = 7;
  expect_found(outside, "leaves its memory");
  CollectivePlan alone = good_plan();
  step_of(alone, 0, StepKind::kSend).peer = 0;
  expect_found(alone, "no other rank");
  CollectivePlan late = good_plan();
  step_of(late, 0, StepKind::kSend).round = 6;
  expect_found(late, "does not exist");
  CollectivePlan shared_port = good_plan();
  auto& steps = shared_port.ranks[0].steps;
  steps.insert(steps.begin(), steps.front());
  expect_found(shared_port, "second in its direction");
  CollectivePlan longer = good_plan();
  step_of(longer, 0, StepKind::kSend).from.range = {0, 3};
  expect_found(longer, "expects 2 elements from rank 0 in round 0, but 3 were sent");
  CollectivePlan fewer = good_plan();
  fewer.ranks.pop_back();
  expect_found(fewer, "steps for 3 ranks instead of 4");
}

}  // namespace
}  // namespace paceline::collectives
