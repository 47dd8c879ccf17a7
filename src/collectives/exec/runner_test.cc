#include "collectives/exec/runner.h"

#include <cmath>
#include <deque>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

using tensor::DType;

// All ranks of an operation in memory. Messages of a sender to a receiver arrive in order, otherwise in an order drawn from a seed;
// a message may begin long before it is there.
class Net {
 public:
  Net(const ProgramRequest& request, std::vector<std::vector<float>> buffers, std::uint32_t seed)
      : buffers_(std::move(buffers)), random_(seed) {
    for (int rank = 0; rank < request.plan.ranks; ++rank) {
      ProgramRequest own = request;
      own.rank = rank;
      auto program = std::make_shared<const Program>(compile(own));
      runners_.push_back(std::make_unique<Runner>(program,
                                                  reinterpret_cast<std::byte*>(buffers_[static_cast<std::size_t>(rank)].data()),
                                                  DType::kFloat32, tensor::Reduction::kSum, pool_));
      for (int peer = 0; peer < request.plan.ranks; ++peer) runners_.back()->on_ready(peer);
    }
  }

  // False: nobody can go on although somebody is not done.
  bool run() {
    for (int rank = 0; rank < static_cast<int>(runners_.size()); ++rank) advance(rank);
    while (!in_flight_.empty()) {
      // The oldest message of a random pair.
      auto pair = in_flight_.begin();
      std::advance(pair, random_() % in_flight_.size());
      const auto [from, to] = pair->first;
      Message& message = pair->second.front();
      Runner& receiver = *runners_[static_cast<std::size_t>(to)];
      if (!message.begun && !message.payload.empty()) {
        message.place = receiver.on_begin(from, message.index, message.payload.size()).value();
        message.begun = true;
        if (random_() % 2 == 0) continue;
      }
      std::copy(message.payload.begin(), message.payload.end(), message.place.begin());
      EXPECT_TRUE(receiver.on_arrived(from, message.index).ok());
      const std::uint32_t action = message.action;
      pair->second.pop_front();
      if (pair->second.empty()) in_flight_.erase(pair);
      runners_[static_cast<std::size_t>(from)]->on_delivered(action);
      advance(from);
      advance(to);
    }
    return std::all_of(runners_.begin(), runners_.end(), [](const auto& runner) { return runner->done() && !runner->borrowed(); });
  }

  const std::vector<std::vector<float>>& buffers() const { return buffers_; }

 private:
  struct Message {
    std::uint32_t action, index;
    std::span<const std::byte> payload;  // read when it arrives: whoever writes it before is found
    bool begun = false;
    std::span<std::byte> place;
  };

  void advance(int rank) {
    sends_.clear();
    runners_[static_cast<std::size_t>(rank)]->advance(sends_);
    for (const Runner::Send& send : sends_)
      in_flight_[{rank, send.peer}].push_back({send.action, send.index, send.payload, false, {}});
  }

  std::vector<std::vector<float>> buffers_;
  std::mt19937 random_;
  BlockPool pool_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner::Send> sends_;
  std::map<std::pair<int, int>, std::deque<Message>> in_flight_;
};

std::vector<std::vector<float>> wild_buffers(int ranks, std::int64_t elements, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(ranks), std::vector<float>(static_cast<std::size_t>(elements)));
  for (auto& buffer : buffers) {
    for (float& element : buffer) element = value(random) * std::pow(10.0F, 4 * value(random));
  }
  return buffers;
}

// The elements that are the rank's result.
Range result_of(const PlanRequest& plan, int rank) {
  if (plan.operation == Operation::kReduce && rank != plan.root) return {};
  if (plan.operation == Operation::kReduceScatter) return part_of(plan.elements, plan.ranks, rank);
  return {0, plan.elements};
}

TEST(Runner, OverlappedStepsInAnyOrderOfArrivalGiveTheBitsOfTheRoundsOneAfterTheOther) {
  std::uint32_t seed = 0;
  for (const Operation operation :
       {Operation::kBroadcast, Operation::kReduce, Operation::kAllreduce, Operation::kReduceScatter, Operation::kAllgather}) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (int ranks = 1; ranks <= 17; ranks += ranks < 9 ? 1 : 4) {
        for (const std::int64_t elements : {std::int64_t{0}, std::int64_t{ranks - 1}, std::int64_t{97}}) {
          ++seed;
          ProgramRequest request;
          const bool rooted = operation == Operation::kBroadcast || operation == Operation::kReduce;
          request.plan = {operation, algorithm, ranks, elements, 1 + seed % 7, rooted ? static_cast<int>(seed) % ranks : 0};
          request.segment = 1 + seed % 5;
          request.agreement = seed % 2 == 0 ? Agreement::kBeforeCompletion : Agreement::kWithData;
          const auto buffers = wild_buffers(ranks, elements, seed);
          const auto plan = make_plan(request.plan).value();
          PlanPlayer<float> twin(plan, buffers, 0);
          std::vector<int> order(static_cast<std::size_t>(ranks));
          std::iota(order.begin(), order.end(), 0);
          ASSERT_TRUE(twin.play(order).ok());
          Net net(request, buffers, seed);
          ASSERT_TRUE(net.run()) << "a deadlock, seed " << seed;
          for (int rank = 0; rank < ranks; ++rank) {
            const Range range = result_of(request.plan, rank);
            for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
              ASSERT_EQ(net.buffers()[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)],
                        twin.buffer(rank)[static_cast<std::size_t>(i)])
                  << to_string(operation) << " " << to_string(algorithm) << ", rank " << rank << " of " << ranks << ", element "
                  << i << ", seed " << seed;
            }
          }
        }
      }
    }
  }
}

TEST(Runner, ABarrierEndsOnlyWhenEveryRankHasBegun) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (int late = 0; late < ranks; late += 3) {
      ProgramRequest request;
      request.plan = {Operation::kAllreduce, Algorithm::kLinearPipeline, ranks, 0, 1, 0};
      // Who has, directly or through others, heard of `late`? All messages that do not depend on it are delivered.
      std::vector<Program> programs;
      for (int rank = 0; rank < ranks; ++rank) {
        request.rank = rank;
        programs.push_back(compile(request));
      }
      BlockPool pool;
      std::vector<std::unique_ptr<Runner>> runners;
      for (const Program& program : programs)
        runners.push_back(std::make_unique<Runner>(std::make_shared<const Program>(program), nullptr, DType::kFloat32,
                                                   tensor::Reduction::kSum, pool));
      bool moved = true;
      while (moved) {
        moved = false;
        for (int rank = 0; rank < ranks; ++rank) {
          if (rank == late) continue;
          std::vector<Runner::Send> sends;
          runners[static_cast<std::size_t>(rank)]->advance(sends);
          for (const Runner::Send& send : sends) {
            moved = true;
            ASSERT_TRUE(runners[static_cast<std::size_t>(send.peer)]->on_arrived(rank, send.index).ok());
            runners[static_cast<std::size_t>(rank)]->on_delivered(send.action);
          }
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<Runner::Send> sends;
        if (rank != late) runners[static_cast<std::size_t>(rank)]->advance(sends);
        EXPECT_FALSE(runners[static_cast<std::size_t>(rank)]->done()) << "rank " << rank << " of " << ranks << " without " << late;
      }
    }
  }
}

TEST(Runner, MoreThanTheEagerBytesLeaveOnlyForAPeerThatHasBegun) {
  ProgramRequest request;
  request.plan = {Operation::kBroadcast, Algorithm::kLinearPipeline, 2, kEagerBytes, 1024, 0};
  request.agreement = Agreement::kWithData;
  std::vector<float> buffer(kEagerBytes);
  BlockPool pool;
  Runner runner(std::make_shared<const Program>(compile(request)), reinterpret_cast<std::byte*>(buffer.data()), DType::kFloat32,
                tensor::Reduction::kSum, pool);
  std::vector<Runner::Send> sends;
  std::size_t before = 1, delivered = 0;
  while (before != sends.size()) {  // until nothing more leaves
    before = sends.size();
    runner.advance(sends);
    for (; delivered < sends.size(); ++delivered) runner.on_delivered(sends[delivered].action);
  }
  EXPECT_EQ(sends.size(), static_cast<std::size_t>(kEagerBytes / 4096));
  runner.on_ready(1);
  runner.advance(sends);
  EXPECT_GT(sends.size(), delivered);
}

TEST(Runner, AMessageThatIsNotExpectedIsRefused) {
  ProgramRequest request;
  request.plan = {Operation::kBroadcast, Algorithm::kMinimumSpanningTree, 2, 100, 1, 0};
  request.rank = 1;
  request.agreement = Agreement::kWithData;
  std::vector<float> buffer(100);
  BlockPool pool;
  Runner runner(std::make_shared<const Program>(compile(request)), reinterpret_cast<std::byte*>(buffer.data()), DType::kFloat32,
                tensor::Reduction::kSum, pool);
  EXPECT_EQ(runner.on_begin(0, 1, 400).status().kind(), ErrorKind::kCorrupt) << "there is only one";
  EXPECT_EQ(runner.on_begin(0, 0, 396).status().kind(), ErrorKind::kCorrupt) << "of another length";
  EXPECT_EQ(runner.on_arrived(0, 0).kind(), ErrorKind::kCorrupt) << "before its beginning";
  ASSERT_TRUE(runner.on_begin(0, 0, 400).ok());
  EXPECT_EQ(runner.on_begin(0, 0, 400).status().kind(), ErrorKind::kCorrupt) << "twice";
}

}  // namespace
}  // namespace paceline::collectives
