// Jobs without servers over every transport, healthy and faulty: each loop with each algorithm gives the bits that its order of
// addition gives, and an interrupt ends it after the same iteration everywhere.
#include <numeric>

#include "collectives/plan/plan_player.h"
#include "job/testing_jobs.h"
#include "runtime_cluster.h"

namespace paceline::runtime::testing {
namespace {

using job::testing::gradient_of;

class CollectiveJobTest : public ::testing::TestWithParam<Backend> {};

TEST_P(CollectiveJobTest, AJobWithoutServersGivesTheBitsOfPlainLoopsWhateverTheLoop) {
  struct Case {
    const char* loop;
    const char* algorithm;
    const char* optimizer;
    std::int32_t workers;
    double clip_norm;
    std::int64_t broadcast_every;
    const char* merge;
    const char* block = "";
  };
  for (const Case& one :
       {Case{"loop1", "best", "adam", 3, 0, 0, ""}, Case{"loop2", "best", "momentum", 4, 0, 0, "", "64KB"},
        Case{"loop3", "direct", "adam", 3, 0.5, 5, "0"}, Case{"loop3-overlap", "lp", "momentum", 4, 0, 0, "5000"},
        Case{"loop3-overlap", "best", "adam", 2, 0, 3, ""}, Case{"loop1", "lp", "momentum", 1, 0.5, 0, ""},
        Case{"loop3-overlap", "lp", "adam", 3, 0, 0, "", "400"}, Case{"loop1", "lp", "adam", 3, 0, 0, "", "1GB"}}) {
    SCOPED_TRACE(fmt::format("{} by {} of {} workers, blocks '{}'", one.loop, one.algorithm, one.workers, one.block));
    Job job;
    job.workers = one.workers;
    job.servers = 0;
    give(job.settings, "collective", one.loop);
    give(job.settings, "algorithm", one.algorithm);
    give(job.settings, "optimizer", one.optimizer);
    job.settings.update.clip_norm = one.clip_norm;
    job.settings.loop.broadcast_every = one.broadcast_every;
    give(job.settings, "merge", one.merge);
    give(job.settings, "block", one.block);
    job.settings.update.learning_rate.base = 0.001;
    if (is_faulty(GetParam())) job.iterations = 40;
    Cluster cluster(GetParam(), job);
    const std::vector<std::vector<float>> parameters = cluster.work_all();
    expect_same_bits(parameters, expected_parameters(job, job.iterations));
    ASSERT_TRUE(cluster.final_report) << cluster.verdict->reason;
    EXPECT_EQ((*cluster.final_report)["servers"], 0);
    EXPECT_EQ((*cluster.final_report)["schedule"], one.loop);
  }
}

// The sums of all units in the order in which the plan of `algorithm` adds.
std::vector<float> sums_by_plan(const job::Plan& plan, collectives::Operation operation, collectives::Algorithm algorithm,
                                const std::vector<std::vector<float>>& gradients) {
  std::vector<float> sums;
  const auto ranks = static_cast<int>(gradients.size());
  for (const scheduling::Unit& unit : plan.units().units) {
    std::vector<std::vector<float>> buffers;
    for (const auto& gradient : gradients) {
      buffers.emplace_back(gradient.begin() + unit.offset, gradient.begin() + unit.offset + unit.elements);
      buffers.back().resize(buffers.back().size() + unit.parts, 1.0F);  // how many workers used each tensor travels along
    }
    const int root = operation == collectives::Operation::kReduce ? ranks - 1 : 0;
    const auto steps =
        collectives::make_plan({operation, algorithm, ranks, unit.elements + unit.parts, unit.elements + unit.parts, root});
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    collectives::PlanPlayer<float> player(*steps, std::move(buffers), 0.0F);
    std::vector<int> order(gradients.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_TRUE(player.play(order).ok());
    sums.insert(sums.end(), player.buffer(root).begin(), player.buffer(root).begin() + unit.elements);
  }
  return sums;
}

TEST_P(CollectiveJobTest, AnAlgorithmWithAnOrderOfItsOwnGivesTheBitsOfItsPlan) {
  using collectives::Algorithm;
  using collectives::Operation;
  for (const auto& [loop, name, operation, algorithm] :
       {std::tuple{"loop3", "ring", Operation::kAllreduce, Algorithm::kRing},
        {"loop3-overlap", "be", Operation::kAllreduce, Algorithm::kBidirectionalExchange},
        {"loop3", "mst", Operation::kAllreduce, Algorithm::kMinimumSpanningTree},
        {"loop1", "mst", Operation::kReduce, Algorithm::kMinimumSpanningTree},
        {"loop2", "be", Operation::kReduce, Algorithm::kBidirectionalExchange}}) {
    SCOPED_TRACE(fmt::format("{} by {}", loop, name));
    Job job;
    job.workers = 4;
    job.servers = 0;
    job.iterations = 3;
    give(job.settings, "collective", loop);
    give(job.settings, "algorithm", name);
    job.settings.schedule.merge = 5000;
    Cluster cluster(GetParam(), job);
    const std::vector<std::vector<float>> parameters = cluster.work_all();
    const wire::TensorTable tensors = table();
    const auto plan = make_plan(job.settings, tensors, job.workers, 0, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    std::vector<float> expected = job::testing::initial_values(kSeed, tensors.elements());
    for (Iteration iteration = 1; iteration <= job.iterations; ++iteration) {
      std::vector<std::vector<float>> gradients;
      for (std::int32_t worker = 0; worker < job.workers; ++worker)
        gradients.push_back(gradient_of(kSeed, worker, iteration, tensors.elements()));
      const std::vector<float> sums = sums_by_plan(**plan, operation, algorithm, gradients);
      for (std::size_t i = 0; i < sums.size(); ++i) expected[i] = expected[i] - 0.05F * (sums[i] * 0.25F);
    }
    expect_same_bits(parameters, expected);
  }
}

TEST_P(CollectiveJobTest, AnInterruptEndsAJobWithoutServersAfterTheSameIterationEverywhere) {
  Job job;
  job.iterations = 1'000'000;
  job.servers = 0;
  job.settings.loop.loop = job::Loop::kOne;
  Cluster cluster(GetParam(), job);
  const auto [ends, parameters, last] = cluster.work_until_interrupted(5);
  EXPECT_EQ(ends[0].message(), "interrupted by the test");
  EXPECT_EQ(ends[1].message(), ends[0].message());
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], expected_parameters(job, last));
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectiveJobTest,
                         ::testing::Values(Backend::kInproc, Backend::kTcp, Backend::kFaultyInproc, Backend::kFaultyTcp), name_of);

}  // namespace
}  // namespace paceline::runtime::testing
