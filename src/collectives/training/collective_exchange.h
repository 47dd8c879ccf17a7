// Training without servers in a process: binds RoundLedger, Updater and an Engine to a loop, an Outbox and the memory of parameters
// and gradients, and gives the training thread what it needs (paramserver/service/gradient_exchange.h).
//
// A unit's gradient is copied to a staging area when it is finished, as large as the model, and everything happens there: with it
// travels for each of its tensors how many workers used it, so that nobody updates what no worker used. So the gradients' array is
// always free. Weights are updated, and received by broadcasts, in the parameters' array, between the end of backward and the
// opening of the layer's gate.
//
// Operations, and updates piece by piece, are done on the loop, so that they go on while the network computes.
//
// Threads: those of gradient_exchange.h for one thread of its own, or any; the rest for the loop.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/exec/engine.h"
#include "collectives/training/round_ledger.h"
#include "collectives/training/updater.h"
#include "paramserver/service/gradient_exchange.h"
#include "paramserver/service/mailbox.h"
#include "session/stall.h"
#include "transport/transport.h"

namespace paceline::collectives {

struct CollectiveExchangeOptions {
  TrainingOptions training;
  std::span<float> parameters;                         // the arena: JobPlan::units().elements floats, outliving the exchange
  std::span<float> gradients;                          // the same size
  Duration stall_deadline = std::chrono::minutes(10);  // the longest that one wait may take; above 0
  // Operations cannot go on, or a gradient must not be used. Called at most once, on the loop.
  std::function<void(const Status&)> on_failed;
  // Where updates are made: all of the iteration are, and parameters and optimizer state stay so until the next one's. On the loop;
  // may be empty.
  std::function<void(Iteration)> on_updated;
};

class CollectiveExchange final : public paramserver::MessageSink, public paramserver::GradientExchange, private PeerOutbox {
 public:
  // `loop` and `outbox` outlive it. Any thread. Destroy on the loop or when it does not run, after the training thread has left.
  CollectiveExchange(const std::shared_ptr<const paramserver::JobPlan>& plan, Rank self, transport::Loop& loop,
                     paramserver::Outbox& outbox, CollectiveExchangeOptions options);
  ~CollectiveExchange() override;
  CollectiveExchange(const CollectiveExchange&) = delete;
  CollectiveExchange& operator=(const CollectiveExchange&) = delete;

  // GradientExchange
  using paramserver::GradientExchange::backward_done;
  Status start() override;
  Status gradient_ready(std::uint32_t tensor) override;
  Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused) override;
  Status wait_layer(Layer layer, Iteration iteration) override { return wait_open(layer, iteration); }
  Status wait_all(Iteration iteration) override { return wait_open(std::nullopt, iteration + 1); }
  Status wait_gradients_free() override;
  Status wait_gradients_free(Layer layer) override;
  bool gradients_free(Layer) override { return true; }
  TimePoint opened_at(Layer layer) override;
  const paramserver::JobPlan& plan() const override { return *plan_; }
  void cancel(const Status& reason) override;
  // For checkpoints, on the loop or before start(): no update is made between the two calls; and what updates have made so far.
  void hold_updates() { held_ = true; }
  void release_updates();
  Updater& updater() { return updater_; }
  const Updater& updater() const { return updater_; }
  std::span<const float> parameters() const { return options_.parameters; }
  paramserver::Account take_account() override;

  // MessageSink
  Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) override;
  void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(const session::PeerName& to, std::uint64_t ticket) override;
  void on_peer_lost(const session::PeerName& peer, const Status& reason) override;

 private:
  // What is to be done to a unit on the loop, in pieces.
  struct Work {
    RoundLedger::Action action;
    std::uint32_t piece = 0;
  };

  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override;
  Status wait_open(std::optional<Layer> layer, Iteration iteration);
  template <typename Done>
  Status wait(std::unique_lock<std::mutex>& lock, Done done, std::optional<Layer> layer);
  Status look_for_stall(std::unique_lock<std::mutex>& lock, const std::string& awaited);
  Status wait_for_round(std::unique_lock<std::mutex>& lock);
  Status stage(Iteration iteration);
  void on_staged(TimePoint now);
  std::string describe_missing(std::optional<Layer> layer) const;
  void carry_out();
  void begin(const RoundLedger::Action& action);
  void on_done(const RoundLedger::Action& action, const Status& status);
  bool work_piece();
  bool counts(const wire::MessageHead& head) const;
  void fail(const Status& reason);
  std::span<float> part(std::span<float> arena, std::uint32_t unit) const;
  std::span<float> staged(std::uint32_t unit) const;

  std::shared_ptr<const paramserver::JobPlan> plan_;
  Rank self_;
  transport::Loop& loop_;
  paramserver::Outbox& outbox_;
  CollectiveExchangeOptions options_;
  Rules rules_;
  std::unique_ptr<float[]> staging_memory_;
  std::vector<std::size_t> staging_begin_;                   // by unit; one more at the end
  std::vector<paramserver::GateLedger::Complete> complete_;  // training thread only

  // Loop only.
  Updater updater_;
  Engine engine_;
  std::shared_ptr<const Group> group_;
  ProgramCache programs_;
  std::uint32_t number_ = 0;
  std::map<std::uint32_t, RoundLedger::Action> operations_;  // under way, by number
  std::vector<Work> work_;                                   // updates and inspections to do, the most urgent unit last
  RoundLedger::Actions taken_;
  std::int64_t bytes_sent_ = 0, bytes_received_ = 0;  // not accounted yet
  bool reported_ = false;                             // on_failed has been called
  bool held_ = false;                                 // no updates now
  std::unique_ptr<transport::Signal> signal_;         // there are actions, or work

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  paramserver::GateLedger gates_;
  RoundLedger core_;
  RoundLedger::Actions actions_;  // for the loop
  session::StallDetector stall_;
  Status failure_;
};

}  // namespace paceline::collectives
