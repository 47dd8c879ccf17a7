// How a member tells of failures: against a coordinator and a server that only do what the test says.
#include "runtime/member.h"

#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session_node.h"

namespace paceline::runtime {
namespace {

using session::testing::Node;
using ::testing::HasSubstr;
using wire::MessageKind;

session::EndpointOptions identity(wire::Role role) {
  session::EndpointOptions options;
  options.self = {role, Rank{0}};
  return options;
}

// Why `peer` was lost; empty: it is there.
std::string node_reason(const Node& node, session::PeerId peer) {
  const auto lost = node.lost.find(peer);
  return lost == node.lost.end() ? std::string() : lost->second.reason.message();
}

class Heard final : public Member {
 public:
  Heard(transport::Transport& transport, MemberOptions options) : Member(transport, std::move(options)) {}

  Result<JobStart> on_welcome(const wire::Welcome&) override { return JobStart{.prepare = prepare}; }
  void on_connected() override { connected.set_value(); }
  void on_park() override {}
  void on_finish_at(Iteration) override {}
  void on_worker_done(Rank, Iteration) override {}
  void on_reached(Rank, Iteration) override {}
  void on_end(const wire::Stop& stop) override { ended.set_value(stop); }

  std::function<Status()> prepare;
  std::promise<void> connected;
  std::promise<wire::Stop> ended;
};

// A worker that has been welcomed and has met its server.
class MemberTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MemberOptions options;
    options.coordinator = coordinator_.listen("127.0.0.1");
    wire::Welcome welcome{.rank = 0, .workers = 1};
    welcome.servers = {server_.listen("127.0.0.1").text()};
    welcome.table.layers = {"fc6"};
    process_.on_loop([&] {
      member_ = std::make_unique<Heard>(process_.transport(), options);
      member_->prepare = prepare_;
      EXPECT_TRUE(member_->start().ok());
    });
    coordinator_.wait_until("join", [](Node& node) { return !node.arrived.empty(); });
    coordinator_.rank.on_loop([this] {
      worker_ = coordinator_.peers.front().first;
      coordinator_.arrived.clear();
    });
    coordinator_.send_owned(worker_, {.kind = MessageKind::kWelcome, .layer = wire::kControlLayer}, encode(welcome));
    server_.wait_peer({wire::Role::kWorker, Rank{0}});
  }

  void TearDown() override {
    process_.stop();
    member_.reset();
  }

  // What the member told first.
  wire::Stop told() {
    coordinator_.wait_until("kFailed", [](Node& node) { return !node.arrived.empty(); });
    wire::Stop stop;
    coordinator_.rank.on_loop([&] {
      EXPECT_EQ(coordinator_.arrived.size(), 1U);
      EXPECT_EQ(coordinator_.arrived.front().head.kind, MessageKind::kFailed);
      stop = wire::decode_stop(coordinator_.arrived.front().payload).value();
    });
    return stop;
  }

  wire::Stop verdict() {
    auto ended = member_->ended.get_future();
    if (ended.wait_for(transport::testing::kPatience) != std::future_status::ready) transport::testing::give_up("on_end");
    return ended.get();
  }

  const transport::testing::Backend backend_ = transport::testing::inproc_backend();
  Node coordinator_{backend_, identity(wire::Role::kCoordinator)};
  Node server_{backend_, identity(wire::Role::kServer)};
  transport::testing::Rank process_{backend_};
  std::unique_ptr<Heard> member_;
  session::PeerId worker_ = 0;
  std::function<Status()> prepare_;
};

// Which prepares until the test says how that ends.
class PreparingMemberTest : public MemberTest {
 protected:
  PreparingMemberTest() {
    prepare_ = [this] { return outcome_.get_future().get(); };
  }
  std::promise<Status> outcome_;
};

TEST_F(PreparingMemberTest, ItsLoopGoesOnMeanwhileAndItIsConnectedOnlyThen) {
  auto connected = member_->connected.get_future();
  process_.on_loop([&] { EXPECT_EQ(connected.wait_for(Duration{0}), std::future_status::timeout) << "its server is there"; });
  outcome_.set_value(Status());
  EXPECT_EQ(connected.wait_for(transport::testing::kPatience), std::future_status::ready);
}

TEST_F(PreparingMemberTest, WhatItCannotReadFailsTheJob) {
  outcome_.set_value(error(ErrorKind::kCorrupt, "the checkpoint is torn"));
  EXPECT_THAT(told().reason, HasSubstr("the checkpoint is torn"));
}

TEST_F(MemberTest, WhatHappensHereIsToldInsteadOfTheGoodbyeThatCameBeforeIt) {
  server_.close(std::chrono::seconds(30));
  process_.on_loop([this] { member_->fail(error(ErrorKind::kCorrupt, "the disk burns")); });
  const wire::Stop first = told();
  EXPECT_EQ(first.kind, wire::StopKind::kFailed);
  EXPECT_THAT(first.reason, HasSubstr("the disk burns"));
  process_.on_loop([this] { member_->fail(error(ErrorKind::kCorrupt, "the roof too")); });
  EXPECT_THAT(told().reason, HasSubstr("the disk burns")) << "the first reason stays, and is told once";
}

TEST_F(MemberTest, AGoodbyeOfWhichNobodySaysWhyIsToldAsAFailureAndNotAsAnInterrupt) {
  server_.close(std::chrono::seconds(30));
  const wire::Stop stop = told();
  EXPECT_EQ(stop.kind, wire::StopKind::kFailed);
  EXPECT_EQ(stop.error, ErrorKind::kPeerLost);
  EXPECT_THAT(stop.reason, HasSubstr("server 0"));
}

TEST_F(MemberTest, TheVerdictThatComesWhileItWaitsIsItsEndAndNothingIsTold) {
  server_.close(std::chrono::seconds(30));
  const wire::Stop why{wire::StopKind::kFailed, ErrorKind::kIo, "server 0: the disk is full"};
  coordinator_.send_owned(worker_, {.kind = MessageKind::kStop, .layer = wire::kControlLayer}, encode(why));
  EXPECT_EQ(verdict().reason, why.reason);
  process_.on_loop([this] { member_->fail(error(ErrorKind::kCorrupt, "too late")); });
  coordinator_.rank.on_loop([this] { EXPECT_TRUE(coordinator_.arrived.empty()); });
}

TEST_F(MemberTest, AGoodbyeThatAnotherRankHeardDoesNotHideThatTheCoordinatorIsGone) {
  process_.on_loop([this] { member_->fail(error(ErrorKind::kCancelled, "worker 2 said goodbye: it has finished")); });
  coordinator_.close(std::chrono::seconds(30));
  EXPECT_THAT(verdict().reason, HasSubstr("coordinator"));
}

TEST_F(MemberTest, WhatAMessageIsAboutIsSaidByTheLayersName) {
  const auto about = [this](MessageKind kind, Layer layer) {
    std::string text;
    process_.on_loop([&] { text = member_->about({.kind = kind, .layer = layer, .iteration = 57}); });
    return text;
  };
  EXPECT_EQ(about(MessageKind::kValue, Layer{0}), " at layer fc6 of iteration 57");
  EXPECT_EQ(about(MessageKind::kCollective, Layer{0}), " at layer fc6") << "a collective's head has no iteration";
  EXPECT_EQ(about(MessageKind::kValue, Layer{1}), "") << "the job has no such layer";
  EXPECT_EQ(about(MessageKind::kValue, wire::kControlLayer), "");
}

// As when one process was both. Others may have missed the coordinator first.
TEST_F(MemberTest, OfAServerAndACoordinatorThatAreLostTogetherItSaysWhatIsSaidOfTheCoordinator) {
  server_.kill();
  EXPECT_THAT(told().reason, HasSubstr("server 0"));
  coordinator_.kill();
  EXPECT_THAT(verdict().reason, HasSubstr("coordinator"));
}

TEST_F(MemberTest, WhatHappenedHereStaysTheReasonWhenTheCoordinatorIsLostToo) {
  process_.on_loop([this] { member_->fail(error(ErrorKind::kCorrupt, "the disk burns")); });
  EXPECT_THAT(told().reason, HasSubstr("the disk burns"));
  coordinator_.kill();
  EXPECT_THAT(verdict().reason, HasSubstr("the disk burns"));
}

TEST_F(MemberTest, TheUsersWishToEndIsToldAtOnceAndIsNoFailure) {
  process_.on_loop([this] {
    member_->interrupt(error(ErrorKind::kCancelled, "worker 0 was asked to end by a signal"));
    member_->fail(error(ErrorKind::kCorrupt, "too late"));
  });
  const wire::Stop stop = told();
  EXPECT_EQ(stop.kind, wire::StopKind::kInterrupted);
  EXPECT_THAT(stop.reason, HasSubstr("signal"));
}

TEST_F(MemberTest, AMessageOfTheCoordinatorsThatIsNotOfTheControlPlaneEndsTheJobWithASentence) {
  coordinator_.send_owned(worker_, {.kind = MessageKind::kDone, .layer = wire::kControlLayer}, {});
  const wire::Stop stop = told();
  EXPECT_EQ(stop.error, ErrorKind::kCorrupt);
  EXPECT_THAT(stop.reason, HasSubstr("the coordinator sent a message of the unexpected kind"));
}

// A server that has asked to join and waits for its welcome.
struct JoinedServer {
  JoinedServer() {
    MemberOptions options;
    options.roles = wire::Role::kServer;
    options.coordinator = coordinator.listen("127.0.0.1");
    process.on_loop([&] {
      member = std::make_unique<Heard>(process.transport(), options);
      EXPECT_TRUE(member->start().ok());
    });
    coordinator.wait_until("join", [](Node& node) { return !node.arrived.empty(); });
  }
  ~JoinedServer() {
    process.stop();
    member.reset();
  }
  JoinedServer(const JoinedServer&) = delete;
  JoinedServer& operator=(const JoinedServer&) = delete;

  const transport::testing::Backend backend = transport::testing::inproc_backend();
  Node coordinator{backend, identity(wire::Role::kCoordinator)};
  transport::testing::Rank process{backend};
  std::unique_ptr<Heard> member;
};

// A server that has been welcomed to a job of two workers, and those who connect to it.
TEST(MemberOfAJob, HearsOnlyThoseWhomTheWelcomeNamesAndWhoKnowTheSecret) {
  using wire::PeerName;
  using wire::Role;
  JoinedServer joined;
  const auto& backend = joined.backend;
  Node& coordinator = joined.coordinator;
  wire::Welcome welcome{.rank = 0, .workers = 2, .job = 5, .epoch = 1, .servers = {"here"}};
  welcome.secret = draw_secret();
  welcome.worker_incarnations = {11, 12};
  welcome.server_incarnations = {21};
  transport::Address address;
  coordinator.rank.on_loop(
      [&] { address = transport::parse_address(wire::decode_join(coordinator.arrived.front().payload).value().address).value(); });
  const PeerName server{Role::kServer, {0}, 21};
  const auto answer = [&](const PeerName& name, const Secret& secret, const PeerName& expected) {
    Node stranger(backend, {.self = name, .secret = secret});
    const auto peer = stranger.connect(address, expected);
    stranger.wait_until("an answer", [&](Node& node) { return !node.peers.empty() || !node.lost.empty(); });
    std::string reason;
    stranger.rank.on_loop([&] { reason = node_reason(stranger, peer); });
    return reason;
  };
  EXPECT_THAT(answer({Role::kWorker, {0}, 11}, welcome.secret, {Role::kServer, {-1}}), HasSubstr("join the job"))
      << "it has not begun";
  coordinator.send_owned(coordinator.peers.front().first, {.kind = MessageKind::kWelcome, .layer = wire::kControlLayer},
                         encode(welcome));

  Node worker(backend, {.self = {Role::kWorker, {0}, 11}, .secret = welcome.secret});
  worker.connect(address, server);
  worker.wait_peer(server);
  EXPECT_THAT(answer({Role::kWorker, {0}, 11}, welcome.secret, server), HasSubstr("already in this job"));
  EXPECT_THAT(answer({Role::kWorker, {1}, 13}, welcome.secret, server),
              HasSubstr("worker 1 does not take part in this job of 2 workers"));
  EXPECT_THAT(answer({Role::kWorker, {1}, 12}, draw_secret(), server), HasSubstr("worker 1 does not know the secret of this job"));
  EXPECT_THAT(answer({Role::kWorker, {1}, 12}, kNoSecret, server), HasSubstr("worker 1 does not know the secret of this job"));
  EXPECT_THAT(answer({Role::kServer, {0}, 21}, welcome.secret, server), HasSubstr("the other way round"));
  for (const std::int32_t rank : {2, 7, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_THAT(answer({Role::kWorker, {rank}}, welcome.secret, server), HasSubstr("does not take part")) << rank;
    EXPECT_THAT(answer({Role::kServer, {rank}}, welcome.secret, server), HasSubstr("does not take part")) << rank;
  }
  EXPECT_EQ(answer({Role::kWorker, {1}, 12}, welcome.secret, server), "") << "the other worker is heard";
}

// A server whose welcome gives it a rank that only workers have.
TEST(MemberOfAJob, RefusesAWelcomeThatHasNoPlaceForIt) {
  JoinedServer joined;
  Node& coordinator = joined.coordinator;
  coordinator.rank.on_loop([&] { coordinator.arrived.clear(); });
  const wire::Welcome welcome{.rank = 1, .workers = 2, .job = 5, .epoch = 1, .servers = {"here"}};
  coordinator.send_owned(coordinator.peers.front().first, {.kind = MessageKind::kWelcome, .layer = wire::kControlLayer},
                         encode(welcome));
  coordinator.wait_until("kFailed", [](Node& node) { return !node.arrived.empty(); });
  coordinator.rank.on_loop([&] {
    EXPECT_THAT(wire::decode_stop(coordinator.arrived.front().payload).value().reason,
                HasSubstr("gave this server rank 1 of 2 workers and 1 servers"));
  });
}

}  // namespace
}  // namespace paceline::runtime
