#include "paramserver/service/worker_client.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"
#include "paramserver/core/testing.h"

namespace paceline::paramserver {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A loop without a thread: signals are served where they are raised, and time goes on by `tick` whenever somebody looks at it.
class HandLoop final : public transport::Loop {
 public:
  TimePoint now() const override { return now_ += tick; }
  void run() override {}
  void stop() override {}
  void post(std::function<void()> work) override { work(); }
  std::unique_ptr<transport::Signal> make_signal(std::function<void()> on_raised) override {
    return std::make_unique<HandSignal>(std::move(on_raised));
  }
  TimerId run_after(Duration, std::function<void()>) override { return 0; }
  void cancel(TimerId) override {}

  void advance(Duration by) { now_ += by; }
  Duration tick{};

 private:
  struct HandSignal final : transport::Signal {
    explicit HandSignal(std::function<void()> raised) : on_raised(std::move(raised)) {}
    void raise() override { on_raised(); }
    std::function<void()> on_raised;
  };
  mutable TimePoint now_ = TimePoint{} - 10000h;  // long past on the clock that condition variables wait by: they never really wait
};

// One server that answers a push with a value when it is told to.
class HandServer final : public Outbox {
 public:
  void send_to_worker(Rank, const wire::MessageHead&, std::span<const std::byte>, std::uint64_t) override {
    FAIL() << "a worker sends to servers only";
  }
  void send_to_server(Rank, const wire::MessageHead& head, std::span<const std::byte>, std::uint64_t ticket) override {
    sent_.push_back({head, ticket});
  }

  void deliver(WorkerClient& worker) {
    for (const auto& [head, ticket] : sent_) worker.on_delivered(kName, ticket);
  }
  void answer(WorkerClient& worker) {
    deliver(worker);
    for (const auto& [head, ticket] : std::exchange(sent_, {})) {
      if (head.kind != wire::MessageKind::kPush) continue;
      const wire::MessageHead value{.kind = wire::MessageKind::kValue,
                                    .layer = head.layer,
                                    .unit = head.unit,
                                    .iteration = head.iteration,
                                    .payload_bytes = head.payload_bytes};
      const auto place = worker.on_message_begin(kName, value);
      ASSERT_TRUE(place.ok()) << place.status().message();
      worker.on_message(kName, value, *place);
    }
  }

 private:
  static inline const session::PeerName kName{session::Role::kServer, {0}};
  struct Sent {
    wire::MessageHead head;
    std::uint64_t ticket;
  };
  std::vector<Sent> sent_;
};

class WorkerClientStall : public ::testing::Test {
 protected:
  WorkerClientStall() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged_)));
    JobOptions options;
    options.schedule = *scheduling::parse_schedule_name("layer-wise");
    plan_ = *JobPlan::make(testing::table_of({{8}, {16}}), options);
    parameters_.resize(24);
    gradients_.resize(24);
    client_ = std::make_unique<WorkerClient>(
        plan_, Rank{0}, loop_, server_,
        WorkerClientOptions{.parameters = parameters_, .gradients = gradients_, .stall_deadline = 60s, .on_failed = {}});
  }
  ~WorkerClientStall() override { spdlog::set_default_logger(before_); }

  // Up to the end of its backward.
  void iterate(Iteration iteration, Duration computing) {
    for (std::int32_t layer = 0; layer < 2; ++layer) ASSERT_TRUE(client_->wait_layer(Layer{layer}, iteration).ok());
    loop_.advance(computing);
    for (std::uint32_t tensor : {1U, 0U}) ASSERT_TRUE(client_->gradient_ready(tensor).ok());
    ASSERT_TRUE(client_->backward_done(iteration).ok());
  }
  void start_and_train(Iteration iterations, Duration computing) {
    // Nobody but this thread is there to answer, so start() is in vain; what it sent is answered afterwards.
    loop_.tick = 1h;
    EXPECT_EQ(client_->start().kind(), ErrorKind::kDeadline);
    loop_.tick = {};
    server_.answer(*client_);
    for (Iteration i = 1; i <= iterations; ++i) {
      iterate(i, computing);
      server_.answer(*client_);
    }
    ASSERT_EQ(logged_.str(), "");
  }
  std::size_t lines() const { return static_cast<std::size_t>(std::ranges::count(logged_.str(), '\n')); }

  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream logged_;
  HandLoop loop_;
  HandServer server_;
  std::shared_ptr<const JobPlan> plan_;
  std::vector<float> parameters_, gradients_;
  std::unique_ptr<WorkerClient> client_;
};

TEST_F(WorkerClientStall, IsWarnedOfOnceAtTenMediansAndFailsAtTheDeadlineWithServerLayerAndIteration) {
  start_and_train(12, 2s);
  iterate(13, 2s);  // not answered
  loop_.tick = 10ms;
  const Status failure = client_->wait_layer(Layer{1}, 14);
  EXPECT_EQ(failure.kind(), ErrorKind::kDeadline);
  EXPECT_THAT(failure.message(), HasSubstr("worker 0 waited 60"));
  EXPECT_THAT(failure.message(),
              HasSubstr(" ms for server 0 to send the value of layer 1 \"layer1\" after iteration 13; --stall-deadline is 60"));
  EXPECT_EQ(lines(), 1U) << logged_.str();
  EXPECT_THAT(logged_.str(), HasSubstr("worker 0 has been waiting 20.0 s for server 0 to send the value of layer 1 \"layer1\" "
                                       "after iteration 13; an iteration takes 2.0 s"));
}

TEST_F(WorkerClientStall, AtTheGradientsNamesTheServerThatDoesNotReceive) {
  start_and_train(3, 2s);
  iterate(4, 2s);
  loop_.tick = 10ms;
  EXPECT_THAT(client_->wait_gradients_free().message(),
              HasSubstr("server 0 to receive the gradient of layer 0 \"layer0\" of iteration 4"));
  EXPECT_THAT(logged_.str(), HasSubstr("server 0 to receive the gradient of layer 0 \"layer0\" of iteration 4"));
}

TEST_F(WorkerClientStall, TimeSpentOutsideWaitsIsNotAStall) {
  start_and_train(12, 2s);
  iterate(13, 2s);
  server_.answer(*client_);
  loop_.advance(50s);  // an evaluation, longer than ten medians
  iterate(14, 2s);
  server_.deliver(*client_);
  loop_.tick = 10ms;
  ASSERT_TRUE(client_->wait_gradients_free().ok());
  EXPECT_EQ(lines(), 0U) << logged_.str();
  EXPECT_THAT(client_->wait_all(14).message(), HasSubstr("waited 60"));  // from the beginning of the wait
  EXPECT_EQ(lines(), 1U) << logged_.str();
}

}  // namespace
}  // namespace paceline::paramserver
