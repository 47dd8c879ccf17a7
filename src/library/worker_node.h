// A worker of a job: the arrays of values and gradients, and one call of the C interface after the other, checked for its turn.
//
// Threads: any, as the interface says. The exchange and the process do what has to wait; the exchange's gate ledger knows whose
// turn it is in an iteration.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "library/job.h"
#include "library/node.h"
#include "runtime/worker_process.h"
#include "training/phase_timer.h"

namespace paceline::library {

class WorkerNode final : public Node {
 public:
  static constexpr const char* kType = "worker";

  // Begins to join.
  static Result<std::shared_ptr<WorkerNode>> begin(Job::Description job, runtime::MemberOptions member,
                                                   const std::optional<JobKey>& key);
  const char* type() const override { return kType; }

  Result<bool> joined(Duration limit);
  paceline_info info() const override;
  Result<bool> finish(Duration limit) override;
  void fail(const Status& reason) override;
  void interrupt() override { process_->interrupt(); }

  struct Span {
    float* first;
    std::int64_t count;
  };
  std::size_t tensors() const { return job_.table.tensors.size(); }
  Result<Span> value(std::uint32_t tensor);
  Result<Span> gradient(std::uint32_t tensor);

  Result<bool> wait_layer(std::int32_t layer, Iteration iteration, Duration limit);
  Result<bool> wait_all(Iteration iteration, Duration limit);
  // Layer -1: all.
  Result<bool> wait_free(std::int32_t layer, Duration limit);
  Status set_order(std::span<const std::int32_t> layers);
  Status tell_rates(Iteration iteration, std::span<const double> learning_rates, std::span<const double> weight_decays);
  Status gradient_ready(std::uint32_t tensor, const void* data);
  Status backward_done(Iteration iteration, std::span<const std::uint32_t> unused);
  // Fills `verdict` but for its size; `unused` is where it says.
  Result<bool> wait_verdict(Iteration iteration, Duration limit, paceline_verdict& verdict);
  // Of the servers' optimizer, and of one tensor as it was gathered last.
  Result<bool> gather_state(Duration limit);
  Result<const exchange::OptimizerState::Known*> state(std::uint32_t tensor) const;
  // What it has alike with all others after the iteration that has ended last; nothing: it goes on from it without a step.
  Status tell_alike(Iteration iteration, const char* call, std::optional<wire::Settings> what);
  // True: somebody asked to stop, and this was the job's last iteration.
  Result<bool> step_done(const paceline_step& step);

  // Object
  void stop() override;
  void end(Duration limit) override;

 private:
  enum class Turn { kJoining, kTraining, kReporting, kEnded };

  WorkerNode(Job::Description job, exchange::OptimizerState state, wire::Roles roles);
  Status require_training(const char* call) const;
  Status check_tensor(std::uint32_t tensor) const;
  Result<std::optional<Layer>> layer_of(std::int32_t layer) const;
  // What the job's failure is called by everybody. A call that was refused harms nothing.
  Status settled(const Status& status);
  Result<bool> settled(const Result<bool>& over);
  template <typename Wait>
  Result<bool> in_slices(Duration limit, Wait wait);
  Span span_in(std::vector<float>& arena, std::uint32_t place) const;
  // From the program's memory, of the tensor's own type.
  void copy_given(std::uint32_t place, const void* data, Span to) const;
  void begin_training();
  template <typename Call>
  Result<bool> one_at_a_time(Duration limit, Call call);
  void save_if_due(bool last);
  Result<bool> finish_alone(Duration limit);
  void hand_in();
  exchange::GradientExchange& exchange() const { return process_->exchange(); }

  const Job::Description job_;
  const std::int32_t role_;
  const std::vector<std::int64_t> offsets_;
  std::vector<float> values_, gradients_;
  exchange::OptimizerState state_;
  std::unique_ptr<runtime::WorkerProcess> process_;

  std::atomic<Turn> turn_ = Turn::kJoining;
  std::atomic<bool> closing_ = false;
  std::atomic<bool> gathered_ = false;  // state_, whole

  std::mutex steps_;                   // what follows
  Iteration stepped_ = 0, saved_ = 0;  // after which a checkpoint was due, or with which the job began
  TimePoint mark_{};
  report::WorkerReport report_;
  std::vector<std::uint32_t> unused_;  // while backward_done runs
  std::unique_ptr<training::ProgressTeller> progress_;
  std::mutex ends_;  // what follows
  std::condition_variable left_;
  bool inside_ = false;  // a thread joins or finishes
};

}  // namespace paceline::library
