// Collective operations that must not succeed: ranks that disagree, calls that make no sense, peers that are lost.
#include <latch>
#include <numeric>

#include "collective_trial.h"

namespace paceline::collectives::testing {
namespace {

using tensor::DType;
using transport::testing::LeakCheck;
using Kind = CollectiveKind;

class CollectiveFailure : public LeakCheck {};

// ---- Ranks that disagree

// Every rank makes its own call; all must fail with the same words. Returns them.
std::string disagreement(int ranks, const std::function<Call(int rank, std::vector<float>& memory)>& call_of, Agreement agreement) {
  CollectiveWorld world(transport::testing::inproc_backend(), ranks);
  std::vector<std::string> words(static_cast<std::size_t>(ranks));
  world.run({.rules = {.agreement = agreement}}, [&](Communicator& all) {
    std::vector<float> first(100, 1.0F);
    // The others may be in the next operation, and hear of the failure, before this one is over here.
    Status status = all.run({.kind = Kind::kAllreduce, .input = first.data(), .output = first.data(), .count = 100});
    if (status.ok()) {
      std::vector<float> memory(400'000, static_cast<float>(all.rank()));  // gone before the next call: nothing may use it
      status = all.run(call_of(all.rank(), memory));
    }
    for (int again = 0; again < 3 && status.ok(); ++again) status = all.run({.kind = Kind::kBarrier});
    EXPECT_FALSE(status.ok()) << "rank " << all.rank();
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest) << status.message();
    EXPECT_EQ(all.run({.kind = Kind::kBarrier}).message(), status.message()) << "a communicator is of no use after an error";
    words[static_cast<std::size_t>(all.rank())] = status.message();
  });
  for (const std::string& each : words) EXPECT_EQ(each, words[0]);
  return words[0];
}

TEST_F(CollectiveFailure, RanksThatDisagreeAllFailWithTheSameWordsThatNameBothAndWhatTheyDo) {
  const auto allreduce = [](std::vector<float>& memory, std::int64_t count) {
    return Call{
        .kind = Kind::kAllreduce, .input = memory.data(), .output = memory.data(), .count = count, .algorithm = Algorithm::kRing};
  };
  for (const std::int64_t count : {std::int64_t{50}, std::int64_t{300'000}}) {
    const std::string words = disagreement(
        4, [&](int rank, auto& memory) { return allreduce(memory, count + (rank == 2 ? 1 : 0)); }, Agreement::kBeforeCompletion);
    EXPECT_TRUE(words.find(" and 2 disagree") != std::string::npos || words.find("ranks 2 and ") != std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("of {} float32", count)), std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("of {} float32", count + 1)), std::string::npos) << words;
  }
  const std::string kinds = disagreement(
      3,
      [&](int rank, auto& memory) {
        if (rank != 1) return allreduce(memory, 1000);
        return Call{.kind = Kind::kBroadcast,
                    .output = memory.data(),
                    .count = 1000,
                    .root = 1,
                    .algorithm = Algorithm::kMinimumSpanningTree};
      },
      Agreement::kBeforeCompletion);
  EXPECT_NE(kinds.find("disagree on operation 2: "), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("allreduce (sum) of 1000 float32 by ring"), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("broadcast of 1000 float32 from rank 1 by mst"), std::string::npos) << kinds;
}

TEST_F(CollectiveFailure, EveryWayToDisagreeIsFound) {
  using Change = std::function<void(Call&, int)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"root", [](Call& call, int) { call.root = 2; }},
      {"dtype", [](Call& call, int) { call.dtype = DType::kInt32; }},
      {"count", [](Call& call, int) { call.count = 0; }},
      {"kind", [](Call& call, int) { call = {.kind = Kind::kBarrier}; }},
      {"algorithm", [](Call& call, int) { call.algorithm = Algorithm::kMinimumSpanningTree; }},
      {"reduction", [](Call& call, int) { call.reduction = ReductionKind::kMax; }},
  };
  for (const auto& [what, change] : changes) {
    for (const Kind kind : {Kind::kBroadcast, Kind::kReduce}) {
      if (kind == Kind::kBroadcast && std::string(what) == "reduction") continue;
      for (const int odd : {0, 3}) {
        const std::string words = disagreement(
            4,
            [&, &alter = change](int rank, std::vector<float>& memory) {
              Call call{.kind = kind, .count = 10'000, .root = 1, .algorithm = Algorithm::kLinearPipeline};
              if (rank == odd) alter(call, rank);
              if (call.kind != Kind::kBarrier) call.output = memory.data();
              if (call.kind == Kind::kReduce) call.input = memory.data();
              return call;
            },
            Agreement::kBeforeCompletion);
        EXPECT_NE(words.find(" disagree on operation 2: "), std::string::npos) << what << ": " << words;
        EXPECT_NE(words.find(fmt::format("{}", odd)), std::string::npos) << what << ": " << words;
      }
    }
  }
}

TEST_F(CollectiveFailure, WithoutAgreementADisagreementIsFoundByItsDataAndReachesTheOthersInTheNextOperation) {
  const std::string words = disagreement(
      4,
      [](int rank, std::vector<float>& memory) {
        return Call{.kind = Kind::kBroadcast,
                    .output = memory.data(),
                    .count = rank == 3 ? 1000 : 2000,
                    .root = 0,
                    .algorithm = Algorithm::kLinearPipeline};
      },
      Agreement::kWithData);
  EXPECT_NE(words.find("ranks 2 and 3 disagree on operation 2"), std::string::npos) << words;
}

// ---- Bad calls and lost peers

TEST_F(CollectiveFailure, ACallThatMakesNoSenseIsRefusedAndHarmsNobody) {
  CollectiveWorld world(transport::testing::inproc_backend(), 2);
  std::latch seen_in_flight(1);
  world.run({}, [&](Communicator& all) {
    alignas(8) std::array<float, 64> memory{};
    const auto refused = [&](const Call& call, const std::string& words) {
      const auto request = all.start(call);
      ASSERT_FALSE(request.ok()) << words;
      EXPECT_EQ(request.status().kind(), ErrorKind::kBadRequest);
      EXPECT_NE(request.status().message().find(words), std::string::npos) << request.status().message();
    };
    void* const data = memory.data();
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .root = 2}, "root 2 is no rank of the group; legal: 0 to 1");
    refused({.kind = Kind::kReduce, .input = data, .output = data, .count = 8, .root = -1}, "root -1");
    refused({.kind = Kind::kAllreduce, .input = nullptr, .output = data, .count = 8}, "the input is null");
    refused({.kind = Kind::kAllreduce, .input = data, .output = nullptr, .count = 8}, "the output is null");
    refused({.kind = Kind::kAllreduce, .input = reinterpret_cast<std::byte*>(data) + 2, .output = data, .count = 8},
            "not aligned to the 4");
    refused({.kind = Kind::kAllreduce, .input = data, .output = memory.data() + 4, .count = 8}, "input and output overlap");
    refused({.kind = Kind::kAllreduce, .input = data, .output = data, .count = -1}, "-1 elements");
    refused({.kind = Kind::kAllreduce,
             .input = data,
             .output = data,
             .dtype = DType::kInt32,
             .count = 8,
             .reduction = ReductionKind::kMean},
            "the mean of int32");
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .algorithm = Algorithm::kRing},
            "broadcast cannot run by ring; legal: lp, mst, be");
    refused({.kind = Kind::kBroadcast, .output = data, .count = 8, .block = Bytes{0}}, "a block of 0 bytes");
    refused({.kind = Kind::kBroadcast, .input = memory.data() + 8, .output = data, .count = 8}, "there is an input");

    // Rank 0 waits for what rank 1 sends, and rank 1 sends once rank 0 has seen that its operation is in flight.
    if (all.rank() == 1) seen_in_flight.wait();
    auto clipped = all.start({.kind = Kind::kBroadcast,
                              .output = data,
                              .count = 8,
                              .root = 1,
                              .algorithm = Algorithm::kLinearPipeline,
                              .block = Bytes{1 << 20}});
    if (all.rank() == 0) {
      refused({.kind = Kind::kBroadcast, .output = memory.data() + 7, .count = 8}, "in flight");
      seen_in_flight.count_down();
    }
    ASSERT_TRUE(clipped.ok());
    EXPECT_EQ(clipped->choice().block, Bytes{32});
    EXPECT_NE(clipped->choice().text().find("blocks of 32 bytes (all of the message"), std::string::npos)
        << clipped->choice().text();
    EXPECT_TRUE(clipped->wait().ok());

    EXPECT_TRUE(all.run({.kind = Kind::kBarrier}).ok());
  });
  world.leave();
}

TEST_F(CollectiveFailure, ALostPeerEndsEveryOperationAndANameIsGiven) {
  session::EndpointOptions options;
  options.silence_deadline = std::chrono::milliseconds(500);
  CollectiveWorld world(transport::testing::inproc_backend(), 4, options);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 3}) {
    threads.emplace_back([&world, rank] {
      const auto all = world.rank(rank).communicator();
      Status status;
      {
        std::vector<float> values(1'000'000, 1.0F);
        status = all->run({.kind = Kind::kAllreduce, .input = values.data(), .output = values.data(), .count = 1'000'000});
      }
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.kind(), ErrorKind::kPeerLost) << status.message();
      EXPECT_NE(status.message().find("worker 2"), std::string::npos) << status.message();
      EXPECT_EQ(all->run({.kind = Kind::kBarrier}).message(), status.message());
    });
  }
  world.rank(2).kill();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CollectiveFailure, ALookDoesNotBeginTheStallLimit) {
  CollectiveWorld world(transport::testing::inproc_backend(), 2);
  world.run({.stall_deadline = std::chrono::milliseconds(50)}, [&](Communicator& all) {
    if (all.rank() == 1) return;
    std::vector<float> values(100, 1.0F);
    auto request = all.start({.kind = Kind::kAllreduce, .input = values.data(), .output = values.data(), .count = 100});
    ASSERT_TRUE(request.ok()) << request.status().message();
    const auto over = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    while (std::chrono::steady_clock::now() < over) ASSERT_FALSE(request->wait(Duration{0}).has_value());
    EXPECT_FALSE(request->wait(std::chrono::milliseconds(1)).has_value()) << "the limit counts from here";
    EXPECT_EQ(request->wait().kind(), ErrorKind::kDeadline);
  });
}

TEST_F(CollectiveFailure, AnOperationThatOneRankNeverBeginsEndsAtTheStallLimitWithItsName) {
  CollectiveWorld world(transport::testing::inproc_backend(), 3);
  std::vector<std::string> words(3);
  world.run({.stall_deadline = std::chrono::milliseconds(300)}, [&](Communicator& all) {
    if (all.rank() == 1) return;
    std::vector<float> values(5'000, 1.0F);
    const Status status = all.run(
        {.kind = Kind::kAllreduce, .input = values.data(), .output = values.data(), .count = 5'000, .algorithm = Algorithm::kRing});
    EXPECT_EQ(status.kind(), ErrorKind::kDeadline);
    words[static_cast<std::size_t>(all.rank())] = status.message();
  });
  EXPECT_EQ(words[0], words[2]);
  EXPECT_NE(words[0].find("0.3 s in operation 1, allreduce (sum) of 5000 float32 by ring, for rank"), std::string::npos)
      << words[0];
}
}  // namespace
}  // namespace paceline::collectives::testing
