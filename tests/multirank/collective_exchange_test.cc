// All-to-all, gather and scatter on real data: ranks as threads over inproc.
#include <future>

#include "collective_trial.h"
#include "transport/inproc/inproc_transport.h"

namespace paceline::collectives::testing {
namespace {

using tensor::DType;
using transport::testing::LeakCheck;
using Kind = CollectiveKind;

class Exchange : public LeakCheck {};

TEST_F(Exchange, PartsOfAnySizeGoStraightToWhoTakesThem) {
  for (const int ranks : {1, 2, 3, 20}) {  // of 20 more than are looked at ahead
    CollectiveWorld world(transport::testing::inproc_backend(), ranks);
    world.run({}, [&](Communicator& all) {
      for (const Kind kind : {Kind::kAlltoall, Kind::kGather, Kind::kScatter}) {
        for (const DType dtype : kDTypes) {
          for (const std::int64_t count : {0, 1, 100, 70'001}) {
            if (ranks == 20 && count > 100 && dtype != DType::kFloat64) continue;
            const Call call{.kind = kind, .dtype = dtype, .count = count, .root = kind == Kind::kAlltoall ? 0 : ranks / 2};
            const Trial trial(call, all, Where::kApart, 3);
            auto request = all.start(trial.call());
            ASSERT_TRUE(request.ok()) << shown(call, ranks, all.rank()) << ": " << request.status().message();
            EXPECT_EQ(request->choice().text(), "every part straight to who takes it, all at once");
            const Status status = request->wait();
            ASSERT_TRUE(status.ok()) << shown(call, ranks, all.rank()) << ": " << status.message();
            trial.check();
          }
        }
      }
    });
    world.leave();
  }
}

TEST_F(Exchange, WhatAnExchangeGivesMayBeGivenTwiceAtATimeAndIsNotWrittenToMeanwhile) {
  CollectiveWorld world(transport::testing::inproc_backend(), 2);
  std::promise<void> refused;
  world.run({}, [&](Communicator& all) {
    std::vector<float> given(2, static_cast<float>(all.rank() + 1)), one(2), other(2);
    Call call{.kind = Kind::kAlltoall, .input = given.data(), .output = one.data(), .gives = {1, 1}, .takes = {1, 1}};
    if (all.rank() == 1) refused.get_future().wait();
    auto first = all.start(call);
    call.output = other.data();
    auto second = all.start(call);
    ASSERT_TRUE(first.ok() && second.ok());
    if (all.rank() == 0) {
      const auto third = all.start({.kind = Kind::kBroadcast, .output = given.data(), .count = 2});
      EXPECT_NE(third.status().message().find("its buffer is still used"), std::string::npos) << third.status().message();
      refused.set_value();
    }
    EXPECT_FALSE(
        all.run({.kind = Kind::kAlltoall, .input = one.data(), .output = one.data(), .gives = {1, 1}, .takes = {1, 1}}).ok());
    ASSERT_TRUE(first->wait().ok() && second->wait().ok());
    EXPECT_EQ(one, (std::vector<float>{1, 2}));
    EXPECT_EQ(other, one);
  });
}

}  // namespace
}  // namespace paceline::collectives::testing
