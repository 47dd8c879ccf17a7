// Strangers at the doors of processes that take part in collective operations without a job.
#include "runtime/collective_process.h"

#include <future>

#include <gmock/gmock.h>

#include "ports.h"
#include "session_node.h"

namespace paceline::runtime {
namespace {

using session::testing::Node;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using wire::PeerName;
using wire::Role;

using Connected = Result<std::unique_ptr<CollectiveProcess>>;

std::future<Connected> connecting(CollectiveProcessOptions options) {
  return std::async(std::launch::async, [options = std::move(options)] { return CollectiveProcess::connect(options); });
}

// What somebody hears who comes as `name` and knows no secret.
std::string answer(const transport::Address& address, const PeerName& name, const PeerName& expected) {
  Node stranger(transport::testing::tcp_backend(), {.self = name});
  const auto peer = stranger.connect(address, expected);
  stranger.wait_until("an answer", [&](Node& node) { return !node.peers.empty() || !node.lost.empty(); });
  std::string reason = "accepted";
  stranger.rank.on_loop([&] {
    if (stranger.lost.contains(peer)) reason = stranger.lost.at(peer).reason.message();
  });
  return reason;
}

const PeerName kRank0{Role::kWorker, {0}}, kRank1{Role::kWorker, {1}};

// Whether both still work together: what one sends arrives at the other.
void expect_alike(CollectiveProcess& a, CollectiveProcess& b) {
  std::promise<bool> well;
  a.post([&] { well.set_value(a.engine().failure().ok()); });
  EXPECT_TRUE(well.get_future().get());
  std::promise<bool> too;
  b.post([&] { too.set_value(b.engine().failure().ok()); });
  EXPECT_TRUE(too.get_future().get());
}

TEST(CollectiveProcess, WithAListNobodyIsHeardWhoDoesNotKnowIt) {
  testing::Ports ports;
  CollectiveProcessOptions options;
  for (int i = 0; i < 2; ++i) options.addresses.push_back(transport::parse_address(ports.next()).value());
  options.self = Rank{0};
  auto first = connecting(options);
  EXPECT_THAT(answer(options.addresses[0], kRank1, kRank0), HasSubstr("does not know the secret")) << "before rank 1 is there";
  EXPECT_THAT(answer(options.addresses[0], kRank0, kRank0), HasSubstr("none of the ranks that connect to rank 0"));
  EXPECT_THAT(answer(options.addresses[0], {Role::kWorker, {7}}, kRank0), HasSubstr("none of the ranks"));
  options.self = Rank{1};
  auto second = connecting(options);
  const Connected a = first.get(), b = second.get();
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  for (std::size_t rank : {0, 1}) {
    const PeerName to{Role::kWorker, {static_cast<std::int32_t>(rank)}};
    for (const PeerName& name :
         {kRank0, kRank1, PeerName{Role::kWorker, {7}}, PeerName{Role::kWorker, {-1}}, PeerName{Role::kServer, {1}}})
      EXPECT_THAT(answer(options.addresses[rank], name, to),
                  AnyOf(HasSubstr("all 2 ranks are there"), HasSubstr("is already in this job")))
          << name.text();
  }
  expect_alike(**a, **b);
}

TEST(CollectiveProcess, AtAMeetingWhoDoesNotJoinTakesNobodysPlace) {
  testing::Ports ports;
  CollectiveProcessOptions options;
  options.meeting = transport::parse_address(ports.next()).value();
  options.ranks = 2;
  options.self = Rank{0};
  auto first = connecting(options);
  EXPECT_THAT(answer(options.meeting, kRank1, kRank0), HasSubstr("cannot join"));
  Node idle(transport::testing::tcp_backend(), {.self = {Role::kWorker, {-1}}});
  const auto peer = idle.connect(options.meeting, kRank0);
  idle.wait_peer(kRank0);
  Node rude(transport::testing::tcp_backend(), {.self = {Role::kWorker, {-1}}});
  const auto from_rude = rude.connect(options.meeting, kRank0);
  rude.wait_peer(kRank0);
  rude.send_owned(from_rude, {.kind = wire::MessageKind::kCollectiveFailed}, std::vector<std::byte>(6));
  EXPECT_THAT(rude.wait_lost(from_rude).message(), HasSubstr("can only join"));
  options.self = Rank{1};
  auto second = connecting(options);
  const Connected a = first.get(), b = second.get();
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_THAT(idle.wait_lost(peer).message(), HasSubstr("all 2 ranks have met already"));
  EXPECT_THAT(answer(options.meeting, {Role::kWorker, {-1}}, kRank0), HasSubstr("all 2 ranks are there"));
  expect_alike(**a, **b);
}

}  // namespace
}  // namespace paceline::runtime
