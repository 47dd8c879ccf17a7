#include "session/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/backoff.h"

namespace paceline::session {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const wire::PeerName kWorker2{wire::Role::kWorker, {2}};
const wire::PeerName kServer1{wire::Role::kServer, {1}};

wire::Hello hello_to_server() { return {.session = 1, .job = 5, .epoch = 3, .from = kWorker2, .to = kServer1}; }

TEST(Handshake, NobodyObjectsToAPeerOfTheSameJobAndEpoch) { EXPECT_FALSE(objection(hello_to_server(), {kServer1, 5, 3})); }

TEST(Handshake, AJobOrEpochThatIsNotKnownYetIsNoReason) {
  EXPECT_FALSE(objection(hello_to_server(), {kServer1, 0, 0}));
  auto hello = hello_to_server();
  hello.job = 0;
  hello.epoch = 0;
  EXPECT_FALSE(objection(hello, {kServer1, 5, 3}));
}

TEST(Handshake, AnotherVersionIsRefusedWithBothVersions) {
  auto hello = hello_to_server();
  hello.lowest = 5;
  hello.highest = 6;
  EXPECT_THAT(objection(hello, {kServer1, 5, 3}).value(),
              HasSubstr("worker 2 speaks session protocol versions 5 to 6, the other side 4 to 4"));
  hello.lowest = 4;
  EXPECT_FALSE(objection(hello, {kServer1, 5, 3})) << "a newer release that still speaks ours";
  wire::HelloReply reply{.lowest = 7, .highest = 7, .from = kServer1};
  EXPECT_THAT(objection(reply, kServer1, {kWorker2, 5, 3}).value(), HasSubstr("server 1 speaks session protocol versions 7 to 7"));
}

TEST(Handshake, TheWrongDestinationJobAndEpochAreNamed) {
  EXPECT_EQ(objection(hello_to_server(), {{wire::Role::kServer, {0}}, 5, 3}).value(),
            "the process at this address is server 0, not server 1");
  EXPECT_THAT(objection(hello_to_server(), {kServer1, 6, 3}).value(),
              HasSubstr("job 0000000000000005, server 1 to job 0000000000000006"));
  EXPECT_EQ(objection(hello_to_server(), {kServer1, 5, 4}).value(),
            "stale epoch: worker 2 is at membership epoch 3, server 1 at 4");
}

TEST(Handshake, WhoWasReplacedIsNotWhoIsMeant) {
  const wire::PeerName now{wire::Role::kServer, {1}, 8}, before{wire::Role::kServer, {1}, 7};
  auto hello = hello_to_server();
  hello.to = before;
  EXPECT_THAT(objection(hello, {now, 5, 3}).value(), HasSubstr("another server 1 than the job's"));
}

TEST(Backoff, DoublesUpToItsLimitWithJitterOfHalf) {
  for (std::uint32_t failures = 1; failures < 200; ++failures) {
    const Duration base = std::min<Duration>(1s, 10ms * (std::int64_t{1} << std::min(failures - 1, 10U)));
    EXPECT_EQ(backoff(failures, 0, 1s), base / 2) << failures;
    EXPECT_LE(backoff(failures, ~std::uint64_t{0}, 1s), base * 3 / 2) << failures;
    EXPECT_GT(backoff(failures, ~std::uint64_t{0}, 1s), base * 149 / 100) << failures;
  }
}

TEST(EndpointOptions, AreCheckedInOnePlace) {
  EXPECT_TRUE(validated({}).ok());
  const auto text = [](auto change) {
    EndpointOptions options;
    change(options);
    const auto result = validated(options);
    EXPECT_TRUE(result.ok() || result.status().kind() == ErrorKind::kBadRequest);
    return result.status().message();
  };
  EXPECT_EQ(text([](EndpointOptions& o) {
              o.chunk = {50'000};
              o.window = {16'384};
            }),
            "the window is 16384 bytes; it is between two chunks, 100000 bytes, and 1099511627776");
  EXPECT_THAT(text([](EndpointOptions& o) { o.chunk = {0}; }), HasSubstr("the chunk is 0 bytes; it is between 1 and 524288"));
  EXPECT_THAT(text([](EndpointOptions& o) {
                o.chunk = {1'048'577};
                o.window = {4'000'000};
              }),
              HasSubstr("the chunk is 1048577 bytes"));
  EXPECT_THAT(text([](EndpointOptions& o) { o.silence_deadline = 9ms; }), HasSubstr("the silence deadline is"));
  EXPECT_THAT(text([](EndpointOptions& o) { o.self.rank = {-2}; }), HasSubstr("the rank is -2"));
  EXPECT_THAT(text([](EndpointOptions& o) { o.order = static_cast<Order>(9); }), HasSubstr("the order is 9"));
}

}  // namespace
}  // namespace paceline::session
