#include "transport/faulty/faulty_transport.h"

#include <list>
#include <map>

#include <gtest/gtest.h>

#include "transport/inproc/inproc_transport.h"

namespace paceline::transport {
namespace {

// Two ranks whose loops are one: everything runs on the test's thread, so a run depends on nothing but the seed and real delays.
class Recorder final : public ConnectionHandler {
 public:
  std::unique_ptr<Connection> connection;
  std::vector<std::uint64_t> got;   // sequence numbers
  std::vector<std::uint64_t> sent;  // tickets
  int closed = 0;
  Status reason;
  bool damaged = false;
  std::function<void()> changed = [] {};

 private:
  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte>) override {
    place_.resize(header.payload_bytes);
    return place_;
  }
  void on_frame(const Frame& frame) override {
    got.push_back(frame.header.sequence);
    for (const std::byte byte : frame.payload) damaged |= byte != static_cast<std::byte>(frame.header.sequence);
    changed();
  }
  void on_sent(std::uint64_t ticket) override {
    sent.push_back(ticket);
    changed();
  }
  void on_closed(const Status& status) override {
    ++closed;
    reason = status;
    changed();
  }

  std::vector<std::byte> place_;
};

class FaultyTest : public ::testing::Test {
 protected:
  void start(const FaultOptions& options) {
    transport_ = make_faulty_transport(network_.make_transport(), options);
    listener_ = std::move(transport_->listen({"node", 0}, {.strangers = 1000, .stranger_deadline = std::chrono::hours(1)},
                                             [this](std::unique_ptr<Connection> connection) {
                                               ++accepted_;
                                               connection->admit();
                                               receivers_.push_back(std::make_unique<Recorder>());
                                               receivers_.back()->connection = std::move(connection);
                                               receivers_.back()->changed = [this] { stop_if_done(); };
                                               receivers_.back()->connection->start(*receivers_.back());
                                               stop_if_done();
                                             }))
                    .value();
  }
  Recorder& connect() {
    senders_.push_back(std::make_unique<Recorder>());
    Recorder& sender = *senders_.back();
    transport_->connect(listener_->address(), std::chrono::seconds(10),
                        [this, &sender](Result<std::unique_ptr<Connection>> result) {
                          ASSERT_TRUE(result.ok());
                          sender.connection = std::move(result).value();
                          sender.changed = [this] { stop_if_done(); };
                          sender.connection->start(sender);
                          stop_if_done();
                        });
    const std::size_t wanted = senders_.size();
    run_until([this, wanted, &sender] { return sender.connection != nullptr && receivers_.size() >= wanted; });
    return sender;
  }
  void send(Recorder& sender, std::uint64_t sequence, std::size_t bytes = 100) {
    payloads_.push_back(std::vector<std::byte>(bytes, static_cast<std::byte>(sequence)));
    sender.connection->send(wire::seal({.kind = wire::FrameKind::kChunk, .sequence = sequence}, {}, payloads_.back()),
                            payloads_.back(), sequence);
  }
  void run_until(std::function<bool()> done) {
    done_ = std::move(done);
    if (done_()) return;
    bool late = false;
    const auto watchdog = transport_->loop().run_after(std::chrono::seconds(120), [&] {
      late = true;
      transport_->loop().stop();
    });
    transport_->loop().run();
    transport_->loop().cancel(watchdog);
    ASSERT_FALSE(late) << "it never came to pass";
  }
  void stop_if_done() {
    if (done_()) transport_->loop().stop();
  }

  InprocNetwork network_;
  std::unique_ptr<FaultyTransport> transport_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Recorder>> receivers_;
  std::vector<std::unique_ptr<Recorder>> senders_;
  std::list<std::vector<std::byte>> payloads_;
  std::function<bool()> done_ = [] { return false; };
  int accepted_ = 0;
};

std::vector<std::uint64_t> up_to(std::uint64_t last) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 1; i <= last; ++i) all.push_back(i);
  return all;
}

TEST_F(FaultyTest, DelaysKeepTheOrderAndLoseNothing) {
  start({.seed = 3, .delay = 0.3, .longest_delay = std::chrono::milliseconds(2)});
  Recorder& sender = connect();
  for (std::uint64_t i = 1; i <= 100; ++i) send(sender, i);
  run_until([&] { return sender.sent.size() == 100 && receivers_[0]->got.size() == 100; });
  EXPECT_EQ(receivers_[0]->got, up_to(100));
  EXPECT_EQ(sender.sent, up_to(100));
  const FaultCounts counts = transport_->counts();
  EXPECT_GT(counts.delays, 10U);
  EXPECT_LT(counts.delays, 60U);
  EXPECT_EQ(counts.cuts + counts.corruptions + counts.reorderings + counts.duplicate_connects, 0U);
}

TEST_F(FaultyTest, FramesOfOneConnectionAreOvertakenByAnothersButNeverByTheirOwn) {
  start({.seed = 4, .longest_delay = std::chrono::seconds(60), .reorder = 0.2});
  Recorder& first = connect();
  Recorder& second = connect();
  for (std::uint64_t i = 1; i <= 200; ++i) {
    send(first, i);
    send(second, i);
  }
  // The last ones may wait for a frame of the other that never comes; by then many have been overtaken.
  run_until([&] { return receivers_[0]->got.size() + receivers_[1]->got.size() >= 200; });
  for (const auto& receiver : receivers_) EXPECT_EQ(receiver->got, up_to(receiver->got.size()));
  EXPECT_GT(transport_->counts().reorderings, 20U);
  EXPECT_EQ(transport_->counts().delays, 0U);
}

TEST_F(FaultyTest, AFrameThatNobodyOvertakesLeavesAfterTheLongestDelay) {
  start({.seed = 5, .longest_delay = std::chrono::milliseconds(1), .reorder = 1});
  Recorder& only = connect();
  for (std::uint64_t i = 1; i <= 5; ++i) send(only, i);
  run_until([&] { return receivers_[0]->got.size() == 5; });
  EXPECT_EQ(transport_->counts().delays, 5U);
  EXPECT_EQ(transport_->counts().reorderings, 0U);
}

TEST_F(FaultyTest, ACutBeforeAFrameDeliversTheOnesBeforeItAndBothSidesLoseThePeer) {
  start({.seed = 6, .first_faults_after = 3, .cut_before = 1});
  Recorder& sender = connect();
  for (std::uint64_t i = 1; i <= 6; ++i) send(sender, i);
  run_until([&] { return sender.closed == 1 && receivers_[0]->closed == 1; });
  EXPECT_EQ(receivers_[0]->got, up_to(3));
  EXPECT_EQ(sender.sent, up_to(3));
  EXPECT_EQ(sender.reason.kind(), ErrorKind::kPeerLost);
  EXPECT_EQ(receivers_[0]->reason.kind(), ErrorKind::kPeerLost);
  EXPECT_EQ(transport_->counts().cuts, 1U);
}

TEST_F(FaultyTest, ACutAfterAFrameDeliversItAndNothingBehindIt) {
  start({.seed = 6, .first_faults_after = 3, .cut_after = 1});
  Recorder& sender = connect();
  for (std::uint64_t i = 1; i <= 6; ++i) send(sender, i);
  run_until([&] { return sender.closed == 1 && receivers_[0]->closed == 1; });
  EXPECT_EQ(receivers_[0]->got, up_to(4));
  EXPECT_EQ(sender.sent, up_to(4));
  EXPECT_EQ(transport_->counts().cuts, 1U);
}

TEST_F(FaultyTest, ACutInsideAFrameIsSeenAsHalfAFrameWhereverItIs) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    listener_.reset();
    receivers_.clear();
    senders_.clear();
    start({.seed = seed, .first_faults_after = 1, .cut_inside = 1});
    Recorder& sender = connect();
    for (std::uint64_t i = 1; i <= 3; ++i) send(sender, i);
    run_until([&] { return sender.closed == 1 && receivers_[0]->closed == 1; });
    EXPECT_EQ(receivers_[0]->got, up_to(1));
    EXPECT_EQ(sender.sent, up_to(1)) << "half a frame was reported as sent";
    EXPECT_NE(receivers_[0]->reason.message().find("in the middle of a frame"), std::string::npos)
        << receivers_[0]->reason.message();
    EXPECT_EQ(transport_->counts().cuts, 1U);
  }
}

TEST_F(FaultyTest, EveryFlippedBitOfAPayloadIsFoundByTheReceiverAndTheSendersBufferIsNotTouched) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    listener_.reset();
    receivers_.clear();
    senders_.clear();
    start({.seed = seed, .first_faults_after = 2, .corrupt_payload = 1});
    Recorder& sender = connect();
    for (std::uint64_t i = 1; i <= 4; ++i) send(sender, i);
    run_until([&] { return receivers_[0]->closed == 1; });
    EXPECT_EQ(receivers_[0]->got, up_to(2));
    EXPECT_FALSE(receivers_[0]->damaged);
    EXPECT_EQ(receivers_[0]->reason.kind(), ErrorKind::kCorrupt);
    EXPECT_GE(transport_->counts().corruptions, 1U);
    for (const auto& payload : payloads_) EXPECT_EQ(payload, std::vector<std::byte>(payload.size(), payload[0]));
  }
}

TEST_F(FaultyTest, EveryFlippedBitOfAHeadIsFoundByTheReceiver) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    listener_.reset();
    receivers_.clear();
    senders_.clear();
    start({.seed = seed, .first_faults_after = 2, .corrupt_head = 1});
    Recorder& sender = connect();
    // Enough behind the damaged one, should its length have grown.
    for (std::uint64_t i = 1; i <= 10; ++i) send(sender, i);
    run_until([&] { return receivers_[0]->closed == 1; });
    EXPECT_EQ(receivers_[0]->got, up_to(2));
    EXPECT_FALSE(receivers_[0]->damaged);
    EXPECT_EQ(receivers_[0]->reason.kind(), ErrorKind::kCorrupt) << receivers_[0]->reason.message();
  }
}

TEST_F(FaultyTest, ASecondConnectionIsOpenedAndSaysNothing) {
  start({.seed = 7, .duplicate_connect = 1});
  Recorder& sender = connect();
  run_until([&] { return accepted_ == 2; });
  send(sender, 1);
  run_until([&] { return receivers_[0]->got.size() + receivers_[1]->got.size() == 1; });
  EXPECT_EQ(transport_->counts().duplicate_connects, 1U);
  for (const auto& receiver : receivers_) receiver->connection->close();
  run_until([&] { return sender.closed == 1; });
}

TEST_F(FaultyTest, TheSameSeedAndCallsGiveTheSameFaultsAndAnotherSeedOthers) {
  const auto fate = [this](std::uint64_t seed) {
    listener_.reset();
    receivers_.clear();
    senders_.clear();
    start({.seed = seed, .delay = 0.1, .longest_delay = std::chrono::microseconds(10), .cut_after = 0.01, .corrupt_payload = 0.01});
    Recorder& sender = connect();
    for (std::uint64_t i = 1; i <= 300; ++i) send(sender, i, i % 50);
    run_until([&] { return (sender.closed == 1 && receivers_[0]->closed == 1) || receivers_[0]->got.size() == 300; });
    const FaultCounts counts = transport_->counts();
    return std::pair(receivers_[0]->got.size(), counts.corruptions);
  };
  std::map<std::pair<std::size_t, std::uint64_t>, int> fates;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto first = fate(seed);
    EXPECT_EQ(first.first, fate(seed).first) << "seed " << seed;
    ++fates[first];
  }
  EXPECT_GT(fates.size(), 5U);
}

TEST_F(FaultyTest, ClosingAndDestroyingWithFramesHeldBackIsHarmless) {
  start({.seed = 8, .delay = 1, .longest_delay = std::chrono::hours(1)});
  Recorder& closing = connect();
  Recorder& destroyed = connect();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    send(closing, i);
    send(destroyed, i);
  }
  closing.connection->close();
  destroyed.connection.reset();
  run_until([&] { return closing.closed == 1 && receivers_[0]->closed == 1 && receivers_[1]->closed == 1; });
  EXPECT_EQ(closing.reason.kind(), ErrorKind::kCancelled);
  EXPECT_TRUE(closing.sent.empty());
  Recorder& outlives = connect();
  send(outlives, 1);
  listener_.reset();
  transport_.reset();
  outlives.connection->close();
}

}  // namespace
}  // namespace paceline::transport
