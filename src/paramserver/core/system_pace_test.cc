// Stepped jobs whose workers do not wait for each other.
#include <numeric>

#include "paramserver/core/system_testing.h"

namespace paceline::paramserver {
namespace {

using testing::Case;
using testing::random_case;
using testing::same_bits;
using testing::System;

// Whole numbers do not round: every push adds 1, so in the end each value is the number of pushes, when none is lost and none
// counted twice. Workers of unequal speed take one mini-batch after the other.
Case ledger(std::uint64_t seed, sync::SyncKind kind, std::int64_t staleness) {
  Case job = random_case(seed);
  job.options.first = 1;
  job.options.update = {};
  job.options.update.learning_rate.base = 1;
  for (auto& tensor : job.table.tensors) tensor.group = 0;
  job.options.sync.kind = kind;
  job.options.sync.staleness = staleness;
  job.zero_initial = true;
  job.iterations = 6;
  job.unused_per_cent = 0;
  job.gradient = [](std::int32_t, Iteration, std::int64_t) { return -1.0F; };
  for (std::int32_t worker = 0; worker < job.options.workers; ++worker)
    job.slowness.push_back(1 + static_cast<unsigned>((seed + static_cast<std::uint64_t>(worker)) % 4));
  return job;
}

void expect_every_push_counted_once(System& system, const Case& job) {
  const auto pushes = static_cast<float>(job.options.workers * job.iterations);
  const scheduling::UnitPlan& units = system.plan().units();
  for (std::uint32_t part = 0; part < units.parts.size(); ++part) {
    const Rank server = units.units[units.parts[part].unit].server;
    for (const float value : system.server(static_cast<std::size_t>(server.value)).export_part(part).value)
      ASSERT_EQ(value, pushes);
  }
  std::vector<std::int64_t> done;
  for (std::int32_t w = 0; w < job.options.workers; ++w) {
    const System::Worker& worker = system.worker(static_cast<std::size_t>(w));
    for (const float value : worker.parameters) ASSERT_EQ(value, pushes);  // the final values, which all workers wait for
    done.insert(done.end(), worker.mini_batches.begin(), worker.mini_batches.end());
  }
  std::ranges::sort(done);
  std::vector<std::int64_t> all(static_cast<std::size_t>(job.options.workers * job.iterations));
  std::iota(all.begin(), all.end(), 1);
  ASSERT_EQ(done, all) << "every mini-batch once";
}

TEST(System, CountsEveryPushOnceInAsp) {
  std::int64_t copies = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Case job = ledger(seed, sync::SyncKind::kAsp, 0);
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    copies += system.server(0).counters().value_copies;
  }
  EXPECT_GT(copies, 0);  // updates did meet values on their way, so that the copies are tested
}

TEST(System, CountsEveryPushOnceInSspAndKeepsItsBound) {
  std::int64_t largest_lead = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto staleness = static_cast<std::int64_t>(seed % 3);
    const Case job = ledger(seed, sync::SyncKind::kSsp, staleness);
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    EXPECT_LE(system.largest_lead, staleness);
    largest_lead = std::max(largest_lead, system.largest_lead);
  }
  EXPECT_EQ(largest_lead, 2);
}

// The first iterations are summed like BSP's: of them all workers together add one mean.
TEST(System, CountsEveryPushOnceInElasticBsp) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Case job = ledger(seed, sync::SyncKind::kElasticBsp, 0);
    job.iterations = 10;
    job.options.sync.lookahead = 1 + static_cast<std::int64_t>(seed % 6);
    job.options.sync.history = 1 + static_cast<std::int64_t>(seed % 3);
    job.options.sync.objective = seed % 2 == 0 ? sync::Objective::kSpan : sync::Objective::kWaitingShare;
    job.options.sync.scale = sync::GradientScale::kFull;  // of the sum, too
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    EXPECT_LT(system.largest_staleness, job.options.sync.lookahead);
  }
}

TEST(System, AtAnElasticBarrierAllWorkersHoldEqualWeightsAfterDifferentNumbersOfIterations) {
  std::int64_t compared = 0, uneven = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Case job = ledger(seed, sync::SyncKind::kElasticBsp, 0);
    job.options.update.learning_rate.base = 0.01;
    job.gradient = {};
    job.iterations = 12;
    job.options.sync.lookahead = 5;
    job.options.sync.history = 2;
    job.options.sync.objective = seed % 2 == 0 ? sync::Objective::kSpan : sync::Objective::kWaitingShare;
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    std::vector<Iteration> ended(static_cast<std::size_t>(job.options.workers), 0);
    for (const sync::Superstep& superstep : system.supersteps) {
      uneven += std::ranges::adjacent_find(superstep.iterations, std::not_equal_to<>()) != superstep.iterations.end() ? 1 : 0;
      for (std::size_t i = 0; i < superstep.workers.size(); ++i)
        ended[static_cast<std::size_t>(superstep.workers[i].value)] += superstep.iterations[i];
      const std::vector<float>* first = nullptr;
      for (const Rank worker : superstep.workers) {
        const auto& began_with = system.worker(static_cast<std::size_t>(worker.value)).began_with;
        const auto found = began_with.find(ended[static_cast<std::size_t>(worker.value)] + 1);
        if (found == began_with.end()) continue;  // no mini-batch was left for it
        if (first == nullptr) first = &found->second;
        ASSERT_TRUE(same_bits(*first, found->second)) << "superstep " << superstep.number << ", worker " << worker.value;
        ++compared;
      }
    }
    for (std::int32_t w = 1; w < job.options.workers; ++w)
      ASSERT_TRUE(same_bits(system.worker(0).parameters, system.worker(static_cast<std::size_t>(w)).parameters)) << "at the end";
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(uneven, 100);
}

}  // namespace
}  // namespace paceline::paramserver
