// Collective operations on real data: ranks as threads over inproc, tcp and a network that cuts, delays and damages.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "collective_trial.h"
#include "collectives/exec/calibration.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::collectives::testing {
namespace {

using tensor::DType;
using transport::testing::LeakCheck;
using Kind = CollectiveKind;

class Collective : public LeakCheck {};

TEST_F(Collective, EveryOperationTypeAndAlgorithmGivesTheRightNumbersInPlaceAndApart) {
  for (const int ranks : {1, 3, 4}) {
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    world.run({}, [&](Communicator& all) {
      for (const Kind kind : {Kind::kBroadcast, Kind::kReduce, Kind::kAllreduce, Kind::kReduceScatter, Kind::kAllgather}) {
        const bool adds = kind != Kind::kBroadcast && kind != Kind::kAllgather;
        for (const Algorithm algorithm : algorithms_for(operation_of(kind))) {
          for (const DType dtype : kDTypes) {
            for (const ReductionKind reduction : kReductions) {
              if (!adds && reduction != ReductionKind::kSum) continue;
              if (dtype == DType::kInt32 && reduction == ReductionKind::kMean) continue;
              for (const Where where : {Where::kInPlace, Where::kApart}) {
                for (const std::int64_t count : {std::int64_t{0}, std::int64_t{ranks - 1}, std::int64_t{1001}}) {
                  const int root = kind == Kind::kBroadcast || kind == Kind::kReduce ? (ranks - 1) / 2 : 0;
                  const Call call{.kind = kind,
                                  .dtype = dtype,
                                  .count = count,
                                  .reduction = reduction,
                                  .root = root,
                                  .algorithm = algorithm,
                                  .block = Bytes{512}};
                  const Trial trial(call, all, where, 7);
                  const Status status = all.run(trial.call());
                  ASSERT_TRUE(status.ok()) << shown(call, ranks, all.rank()) << ": " << status.message();
                  trial.check();
                }
              }
            }
          }
        }
      }
    });
    world.leave();
  }
}

TEST_F(Collective, ManyRandomOperationsInFlightOverMemoryAndTcp) {
  for (const auto& [backend, ranks] : {std::pair(transport::testing::inproc_backend(), 5),
                                       {transport::testing::tcp_backend(), 2},
                                       {transport::testing::tcp_backend(), 7},
                                       {transport::testing::inproc_backend(), 8}}) {
    CollectiveWorld world(backend, ranks);
    world.run({}, [&](Communicator& all) { storm(all, static_cast<unsigned>(ranks), 60, 300'000); });
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.rank(rank).unfinished(), 0);
    world.leave();
  }
}

TEST_F(Collective, ANetworkThatCutsDelaysAndDamagesChangesNoNumber) {
  std::vector<transport::FaultyTransport*> faults;
  Backend backend = transport::testing::inproc_backend();
  backend.make = [&, make = backend.make]() -> std::unique_ptr<transport::Transport> {
    auto faulty = transport::make_faulty_transport(make(), {.seed = 40 + faults.size(),
                                                            .delay = 0.01,
                                                            .longest_delay = std::chrono::milliseconds(3),
                                                            .reorder = 0.01,
                                                            .cut_before = 0.003,
                                                            .cut_inside = 0.003,
                                                            .cut_after = 0.003,
                                                            .corrupt_payload = 0.01});
    faults.push_back(faulty.get());
    return faulty;
  };
  session::EndpointOptions options;
  options.silence_deadline = std::chrono::seconds(60);
  options.chunk = Bytes{16'384};
  CollectiveWorld world(backend, 4, options);
  world.run({.rules = {.agreement = Agreement::kWithData}}, [&](Communicator& all) { storm(all, 77, 60, 100'000); });
  std::uint64_t cuts = 0, corruptions = 0;
  for (const auto* faulty : faults) {
    cuts += faulty->counts().cuts;
    corruptions += faulty->counts().corruptions;
  }
  EXPECT_GT(cuts, 0U);
  EXPECT_GT(corruptions, 0U);
}

// Numbers whose sum depends on the order in which they are added.
std::vector<float> wild(int rank, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& each : values) each = value(random) * std::pow(10.0F, 5 * value(random));
  return values;
}

TEST_F(Collective, InRankOrderEveryAlgorithmGivesTheBitsOfTheSumInRankOrder) {
  for (const int ranks : {2, 4, 5}) {
    constexpr std::int64_t kCount = 40'003;
    std::vector<float> sum = wild(0, kCount), mean;
    for (int rank = 1; rank < ranks; ++rank) {
      const auto next = wild(rank, kCount);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
    }
    mean = sum;
    for (float& value : mean) value *= static_cast<float>(1.0 / ranks);
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    world.run({.rules = {.order = SumOrder::kRank, .segment = Bytes{4096}}}, [&](Communicator& all) {
      for (const auto algorithm : legal_algorithms(Operation::kAllreduce, SumOrder::kRank, ranks, 0, ReductionKind::kSum)) {
        for (const auto reduction : {ReductionKind::kSum, ReductionKind::kMean}) {
          std::vector<float> values = wild(all.rank(), kCount);
          ASSERT_TRUE(all.run({.kind = Kind::kAllreduce,
                               .input = values.data(),
                               .output = values.data(),
                               .count = kCount,
                               .reduction = reduction,
                               .algorithm = algorithm,
                               .block = Bytes{8192}})
                          .ok());
          EXPECT_EQ(values, reduction == ReductionKind::kSum ? sum : mean) << to_string(algorithm) << ", rank " << all.rank();
        }
      }
      std::vector<float> values = wild(all.rank(), kCount);
      ASSERT_TRUE(
          all.run({.kind = Kind::kReduce, .input = values.data(), .output = values.data(), .count = kCount, .root = ranks - 1})
              .ok());
      if (all.rank() == ranks - 1) {
        EXPECT_EQ(values, sum);
      }
      if (ranks > 2) {
        const Status refused =
            all.run({.kind = Kind::kReduce, .input = values.data(), .output = values.data(), .count = 8, .root = 0});
        EXPECT_NE(refused.message().find("only rank"), std::string::npos) << refused.message();
      }
    });
    world.leave();
  }
}

// Links of hosts, the later ones of which are slower; a link is as slow as its slower end.
std::shared_ptr<const LinkRates> uneven_links(const std::vector<double>& hosts) {
  std::vector<double> links;
  for (const double a : hosts) {
    for (const double b : hosts) links.push_back(std::max(a, b) * 1e-9);
  }
  return std::make_shared<const LinkRates>(LinkRates::make(static_cast<int>(hosts.size()), links).value());
}

TEST_F(Collective, ChainsThatDoNotFollowTheRanksGiveTheRightNumbersToEveryRoot) {
  for (const auto& hosts : {std::vector<double>{8, 40, 8, 8}, {30, 8, 16, 8, 50}, {9, 8, 8, 60, 8, 25, 8}}) {
    const int ranks = static_cast<int>(hosts.size());
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    const Rules rules{.links = uneven_links(hosts)};
    std::atomic<int> permuted = 0;
    world.run({.rules = rules}, [&](Communicator& all) {
      for (const Kind kind : {Kind::kBroadcast, Kind::kReduce, Kind::kAllreduce}) {
        for (int root = 0; root < (kind == Kind::kAllreduce ? 1 : ranks); ++root) {
          const Call call{.kind = kind,
                          .dtype = DType::kFloat32,
                          .count = 10'007,
                          .root = root,
                          .algorithm = Algorithm::kLinearPipeline,
                          .block = Bytes{512}};
          const Trial trial(call, all, Where::kInPlace, 3);
          auto request = all.start(trial.call());
          ASSERT_TRUE(request.ok()) << request.status().message();
          if (!request->choice().order.empty()) ++permuted;
          ASSERT_TRUE(request->wait().ok()) << shown(call, ranks, all.rank());
          trial.check();
        }
      }
      storm(all, static_cast<unsigned>(ranks), 40, 50'000);
      auto group = all.subgroup(1, {0, 1, ranks - 1});
      if (all.rank() == 0 || all.rank() == 1 || all.rank() == ranks - 1) {
        ASSERT_TRUE(group.ok());
        storm(**group, 9, 20, 20'000);
      }
    });
    EXPECT_GT(permuted, ranks * ranks) << "more than half of the operations";
    world.leave();
  }
}

TEST_F(Collective, WhatRanksMeasureOfTheirLinksIsTheSameOnAllOfThem) {
  for (const int ranks : {1, 3, 6}) {
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    std::vector<std::vector<double>> seen(static_cast<std::size_t>(ranks));
    world.run({}, [&](Communicator& all) {
      CollectiveRank& self = world.rank(all.rank());
      const auto links = measure_links(self.engine(), self.post(), Rank{all.rank()}, ranks, {}, {Bytes{65'536}, 2});
      ASSERT_TRUE(links.ok()) << links.status().message();
      auto& mine = seen[static_cast<std::size_t>(all.rank())];
      mine.push_back(*links ? 1 : 0);
      for (int a = 0; *links && a < ranks; ++a) {
        for (int b = 0; b < a; ++b) mine.push_back((*links)->link(a, b));
      }
      CommunicatorOptions options;
      if (*links) options.rules.links = std::make_shared<const LinkRates>((*links)->scaled_to(1e-8));
      auto again = self.communicator(options)->subgroup(1, [&] {
        std::vector<int> everybody(static_cast<std::size_t>(ranks));
        std::iota(everybody.begin(), everybody.end(), 0);
        return everybody;
      }());
      ASSERT_TRUE(again.ok()) << again.status().message();
      storm(**again, 5, 30, 20'000);
    });
    for (const auto& each : seen) EXPECT_EQ(each, seen[0]);
    world.leave();
  }
}

TEST_F(Collective, InRankOrderNobodyComparesLinks) {
  CollectiveWorld world(transport::testing::inproc_backend(), 3);
  world.run({}, [&](Communicator& all) {
    CollectiveRank& self = world.rank(all.rank());
    CommunicatorOptions options;
    options.rules.order = SumOrder::kRank;
    const auto calibration = calibrate(self.engine(), self.post(), Rank{all.rank()}, 3, options);
    ASSERT_TRUE(calibration.ok()) << calibration.status().message();
    EXPECT_EQ(calibration->links, nullptr);
    EXPECT_GT(calibration->fit.cost.beta, 0);
  });
  world.leave();
}

TEST_F(Collective, SubgroupsWorkSideBySideWithTheWholeAndWithEachOther) {
  CollectiveWorld world(transport::testing::inproc_backend(), 6);
  world.run({}, [&](Communicator& all) {
    const bool even = all.rank() % 2 == 0;
    auto group = all.subgroup(even ? 1 : 2, even ? std::vector{0, 2, 4} : std::vector{1, 3, 5});
    ASSERT_TRUE(group.ok()) << group.status().message();
    EXPECT_EQ((*group)->rank(), all.rank() / 2);
    for (unsigned round = 0; round < 5; ++round) {
      storm(**group, round + (even ? 100 : 200), 5, 20'000);
      storm(all, round, 5, 20'000);
    }
    EXPECT_FALSE(all.subgroup(0, {0, 1}).ok());
    EXPECT_NE(all.subgroup(9, {all.rank(), 6}).status().message().find("legal: 0 to 5"), std::string::npos);
    EXPECT_FALSE(all.subgroup(9, {(all.rank() + 1) % 6}).ok()) << "without itself";
    EXPECT_FALSE(all.subgroup(9, {5, all.rank(), 0}).ok()) << "not ascending";
  });
  world.leave();
}

TEST_F(Collective, AnUrgentOperationOvertakesALargeOneThatBeganBefore) {
  CollectiveWorld world(transport::testing::tcp_backend(), 2);
  world.run({}, [&](Communicator& all) {
    std::vector<float> large(8'000'000, 1.0F), urgent(1000, 2.0F);
    auto slow =
        all.start({.kind = Kind::kAllreduce, .input = large.data(), .output = large.data(), .count = 8'000'000, .priority = {9}});
    auto fast =
        all.start({.kind = Kind::kAllreduce, .input = urgent.data(), .output = urgent.data(), .count = 1000, .priority = {0}});
    ASSERT_TRUE(slow.ok() && fast.ok());
    EXPECT_TRUE(fast->wait().ok());
    EXPECT_TRUE(slow->wait().ok());
    EXPECT_EQ(urgent[999], 4.0F);
    EXPECT_EQ(large[7'999'999], 2.0F);
  });
  EXPECT_GT(world.rank(0).counters().overtakes, 0U);
  world.leave();
}

}  // namespace
}  // namespace paceline::collectives::testing
