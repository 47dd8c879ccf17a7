#include "collectives/plan/device_schedule.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

using Values = std::vector<std::int64_t>;

std::vector<Values> contributions(const PlanRequest& request) {
  std::vector<Values> buffers;
  for (int rank = 0; rank < request.ranks; ++rank) {
    Values values;
    for (std::int64_t i = 0; i < request.elements; ++i) values.push_back((std::int64_t{1} << rank) + 100'000 * i);
    buffers.push_back(std::move(values));
  }
  return buffers;
}

// Runs the operations one after the other in a random order that streams and waits allow.
std::vector<Values> run(const DeviceSchedule& schedule, std::vector<Values> buffers, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Values> scratch;
  for (const std::int64_t elements : schedule.scratch) scratch.emplace_back(static_cast<std::size_t>(elements), -1);
  std::map<std::pair<int, DeviceStream>, std::vector<std::uint32_t>> streams;
  for (std::uint32_t i = 0; i < schedule.operations.size(); ++i)
    streams[{schedule.operations[i].rank, schedule.operations[i].stream}].push_back(i);
  std::map<std::pair<int, DeviceStream>, std::size_t> next;
  std::vector<bool> done(schedule.operations.size());
  for (std::size_t count = 0; count < done.size(); ++count) {
    std::vector<std::pair<int, DeviceStream>> ready;
    for (const auto& [stream, operations] : streams) {
      if (next[stream] == operations.size()) continue;
      const auto& waits = schedule.operations[operations[next[stream]]].waits;
      if (std::ranges::all_of(waits, [&](std::uint32_t one) { return done[one]; })) ready.push_back(stream);
    }
    if (ready.empty()) {
      ADD_FAILURE() << "deadlock after " << count << " operations, seed " << seed;
      return buffers;
    }
    const auto stream = ready[random() % ready.size()];
    const std::uint32_t number = streams[stream][next[stream]++];
    const DeviceOperation& operation = schedule.operations[number];
    const auto memory = [&](int rank, Memory which) -> Values& {
      return (which == Memory::kBuffer ? buffers : scratch)[static_cast<std::size_t>(rank)];
    };
    const Values& from = memory(operation.rank, operation.from_memory);
    Values& to = memory(operation.peer, operation.to_memory);
    for (std::int64_t i = 0; i < operation.from.count; ++i) {
      const std::int64_t value = from.at(static_cast<std::size_t>(operation.from.first + i));
      std::int64_t& place = to.at(static_cast<std::size_t>(operation.to.first + i));
      place = operation.kind == DeviceOperation::Kind::kReduce ? place + value : value;
    }
    done[number] = true;
  }
  return buffers;
}

const std::vector<std::pair<Operation, std::vector<Algorithm>>>& everything() {
  static const auto all = [] {
    std::vector<std::pair<Operation, std::vector<Algorithm>>> list;
    for (const auto operation :
         {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
      const auto algorithms = algorithms_for(operation);
      list.emplace_back(operation, std::vector<Algorithm>(algorithms.begin(), algorithms.end()));
    }
    return list;
  }();
  return all;
}

// What belongs to the result: the rest of a buffer is undefined.
bool is_result(const PlanRequest& request, int rank, std::int64_t element) {
  if (request.operation == Operation::kReduce) return rank == request.root;
  if (request.operation != Operation::kReduceScatter) return true;
  const Range part = part_of(request.elements, request.ranks, rank);
  return element >= part.first && element < part.first + part.count;
}

TEST(DeviceSchedule, GivesThePlansResultInAnyOrderThatItsWaitsAllow) {
  for (const auto& [operation, algorithms] : everything()) {
    for (const Algorithm algorithm : algorithms) {
      for (const int ranks : {1, 2, 3, 4, 5, 8}) {
        for (const std::int64_t elements : {0, 1, 3, 17, 40}) {
          PlanRequest request{.operation = operation, .algorithm = algorithm, .ranks = ranks, .elements = elements, .block = 3};
          if (operation == Operation::kBroadcast || operation == Operation::kReduce) request.root = ranks / 2;
          const CollectivePlan plan = make_plan(request).value();
          PlanPlayer<std::int64_t> player(plan, contributions(request), -7);
          std::vector<int> order;
          for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
          ASSERT_TRUE(player.play(order).ok());
          const DeviceSchedule schedule = device_schedule(plan);
          for (unsigned seed = 0; seed < 6; ++seed) {
            const auto found = run(schedule, contributions(request), seed);
            for (int rank = 0; rank < ranks; ++rank) {
              for (std::int64_t i = 0; i < elements; ++i) {
                if (!is_result(request, rank, i)) continue;
                ASSERT_EQ(found[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)],
                          player.buffer(rank)[static_cast<std::size_t>(i)])
                    << to_string(operation) << " by " << to_string(algorithm) << ", " << ranks << " ranks, " << elements
                    << " elements, rank " << rank << ", element " << i << ", seed " << seed;
              }
            }
          }
        }
      }
    }
  }
}

// Steps that copies take when each takes one and reductions none: the longest path through streams and waits.
std::int64_t steps_of(const DeviceSchedule& schedule) {
  std::vector<std::int64_t> end(schedule.operations.size());
  std::map<std::pair<int, DeviceStream>, std::int64_t> stream_end;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < end.size(); ++i) {
    const DeviceOperation& operation = schedule.operations[i];
    std::int64_t& stream = stream_end[{operation.rank, operation.stream}];
    std::int64_t begin = stream;
    for (const std::uint32_t wait : operation.waits) begin = std::max(begin, end[wait]);
    end[i] = begin + (operation.rank != operation.peer ? 1 : 0);
    stream = end[i];
    last = std::max(last, end[i]);
  }
  return last;
}

TEST(DeviceSchedule, PipelinesKeepTheirStepsSoThatNoWaitIsNeedless) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const std::int64_t blocks : {1, 2, 4, 16, 64}) {
      for (const auto operation : {Operation::kBroadcast, Operation::kReduce}) {
        const CollectivePlan plan = make_plan({.operation = operation,
                                               .algorithm = Algorithm::kLinearPipeline,
                                               .ranks = ranks,
                                               .elements = 2 * blocks,
                                               .block = 2})
                                        .value();
        EXPECT_EQ(steps_of(device_schedule(plan)), blocks + ranks - 2) << to_string(operation) << ", " << ranks << " ranks";
      }
      const CollectivePlan plan =
          make_plan({.algorithm = Algorithm::kLinearPipeline, .ranks = ranks, .elements = 2 * blocks, .block = 2}).value();
      EXPECT_LE(steps_of(device_schedule(plan)), plan.rounds) << ranks << " ranks, " << blocks << " blocks";
    }
  }
}

TEST(DeviceSchedule, ABlockArrivesWhileTheOneBeforeIsAdded) {
  const CollectivePlan plan = make_plan({.operation = Operation::kReduce,
                                         .algorithm = Algorithm::kLinearPipeline,
                                         .ranks = 3,
                                         .elements = 8,
                                         .block = 2,
                                         .root = 2})
                                  .value();
  const DeviceSchedule schedule = device_schedule(plan);
  EXPECT_EQ(schedule.scratch[1], 2 * plan.ranks[1].scratch);
  // Rank 0's second block waits for nothing on rank 1: not for the addition of the first.
  std::vector<const DeviceOperation*> leaving;
  for (const auto& operation : schedule.operations)
    if (operation.rank == 0 && operation.stream == DeviceStream::kLeaving) leaving.push_back(&operation);
  ASSERT_EQ(leaving.size(), 4U);
  EXPECT_TRUE(leaving[1]->waits.empty());
  EXPECT_EQ(leaving[2]->waits.size(), 1U) << "the place of the first is used again";
}

}  // namespace
}  // namespace paceline::collectives
