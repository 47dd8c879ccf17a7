// A worker's communication as part of a process: joins the job on a loop of its own thread and gives the training thread a face
// that blocks. Knows nothing of torch: the parameters and gradients are two arrays. It is the worker of its node; if the process
// has a server's seat too, a server lives on the same loop, and everything below is the same.
//
// Threads: make, use and destroy it on the training thread; ask_to_end() and interrupt() on any. What a SeatHandler is told comes
// on the loop, but for restore().
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/state_checkpoints.h"
#include "exchange/gradient_exchange.h"
#include "exchange/optimizer_state.h"
#include "job/compute_speed.h"
#include "job/option.h"
#include "report/report.h"
#include "runtime/node.h"

namespace paceline::collectives {
class CollectiveCarrier;
}

namespace paceline::runtime {

class WorkerProcess final : public SeatHandler {
 public:
  using MakeTransport = std::function<Result<std::unique_ptr<transport::Transport>>()>;

  // Joins with the table and settings in `options`, of a job without servers when the settings say --collective; returns when all
  // peers are connected and the parameters hold the job's initial values. The arrays outlive the object. Errors: the coordinator's
  // refusal (kBadRequest), or who could not be reached in time.
  static Result<std::unique_ptr<WorkerProcess>> join(const MakeTransport& make_transport, MemberOptions options,
                                                     std::span<float> parameters, std::span<float> gradients);
  // The same in two steps, for those who cannot wait for so long: begins to join. `state`, if any, outlives the object: servers
  // begin with what rank 0 has there, unless the job goes on from a checkpoint, and what is asked of them comes there;
  static Result<std::unique_ptr<WorkerProcess>> begin(const MakeTransport& make_transport, MemberOptions options,
                                                      std::span<float> parameters, std::span<float> gradients,
                                                      exchange::OptimizerState* state = nullptr);
  // and waits for its end, at most so long. False: not yet, ask again. Until it is true nothing else but interrupt() may be called.
  Result<bool> joined(Duration limit);
  ~WorkerProcess() override;

  Rank rank() const { return rank_; }
  std::int32_t workers() const { return workers_; }
  Iteration first() const { return first_; }
  const job::JobSpec& settings() const { return settings_; }
  const checkpoint::CheckpointSeal& seal() const { return seal_; }  // of its part of a checkpoint
  const job::ComputeSpeed& compute_speed() const { return compute_speed_; }
  exchange::GradientExchange& exchange() { return *exchange_; }

  void send_progress(std::string json);
  // What all workers must have alike after `iteration`, as (what, how it is here); nothing: this one goes on without the step that
  // each makes by itself, and tells so before anything of a later iteration (membership/alike_ledger.h).
  void tell_alike(Iteration iteration, std::optional<wire::Settings> what);
  // Whether a checkpoint is due after `iteration`, which it is always after the job's last one.
  bool checkpoint_due(Iteration iteration, bool last) const;
  // Writes this worker's part of it, what it has besides parameters: `contents` of head.arrays.
  // A part that cannot be written only makes the checkpoint void.
  void save_part(Iteration iteration, checkpoint::PartHead head = {}, const std::vector<std::span<const std::byte>>& contents = {});
  // After the backward pass of `iteration`. True: it is the job's last one, because somebody asked to stop.
  Result<bool> end_iteration(Iteration iteration);
  // Hands in the report and waits for the coordinator's verdict.
  Status finish(report::WorkerReport report);
  // The same in two steps: hands it in, once, and waits for the verdict, at most so long. False: not yet, ask again.
  void hand_in(report::WorkerReport report);
  Result<bool> ended(Duration limit);
  // This process cannot go on; the coordinator is told. Returns the verdict.
  Status fail(const Status& reason);

  // This process was asked to end by a signal: the job ends after the iteration that it is in. Returns at once.
  void ask_to_end();
  // And was asked again: what the training thread waits for ends.
  void interrupt();
  // What is still being sent when it is destroyed may take so long, if that is shorter than otherwise.
  void shorten_farewell(Duration limit) { farewell_ = std::min(farewell_, limit); }

  // SeatHandler
  wire::Role role() const override { return wire::Role::kWorker; }
  Result<session::ChannelEnd*> begin(const BegunJob& job) override;
  Status restore() override;
  void on_connected() override;
  void on_park() override;
  void on_finish_at(Iteration last) override;
  void on_worker_done(Rank worker, Iteration last) override;
  void on_reached(Rank who, Iteration reached) override;
  void end(const wire::Stop& stop, std::function<void()> done) override;

 private:
  WorkerProcess(std::unique_ptr<transport::Transport> transport, MemberOptions options, std::span<float> parameters,
                std::span<float> gradients, exchange::OptimizerState* state);
  template <typename Done>
  bool wait(std::unique_lock<std::mutex>& lock, Duration limit, Done done);
  Status wait_for_verdict();
  Status restore_parameters();
  Status check_state(const job::Plan& plan);
  Status make_exchange(const std::shared_ptr<const job::Plan>& plan);
  Status make_collective_exchange(const std::shared_ptr<const job::Plan>& plan);
  std::unique_ptr<exchange::Gatehouse> make_house(const std::shared_ptr<const job::Plan>& plan, exchange::GateLedger::Rule rule);
  void set_end(const wire::Stop& stop);

  std::span<float> parameters_, gradients_;
  exchange::OptimizerState* state_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<exchange::GradientExchange> exchange_;
  exchange::Gatehouse* house_ = nullptr;                       // the exchange's
  collectives::CollectiveCarrier* updates_ = nullptr;          // --collective, on a rank that updates: whose state is restored
  std::unique_ptr<checkpoint::StateCheckpoints> checkpoints_;  // --collective with --checkpoint, on the rank that holds the state
  Rank rank_;
  std::int32_t workers_ = 0;
  Iteration first_ = 1;
  job::JobSpec settings_;
  checkpoint::CheckpointSeal seal_;
  job::ComputeSpeed compute_speed_;
  Duration farewell_ = Duration::max();

  std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  bool connected_ = false;
  bool park_asked_ = false;
  Iteration begun_ = 1;  // the training thread's; it does not go beyond it once parking was asked for
  std::optional<Iteration> last_;
  std::optional<wire::Stop> end_;

  std::thread loop_thread_;
};

}  // namespace paceline::runtime
