#include "trainer/worker_loop.h"

#include <torch/torch.h>

namespace paceline::trainer {
namespace {

using runtime::Phase;

constexpr Duration kProgressEvery = std::chrono::milliseconds(100);

// Passes gates and gradients between the network and the parameter server.
class Gates final : public LayerObserver {
 public:
  explicit Gates(paramserver::WorkerClient& client) : client_(client) {}

  void begin(Iteration iteration) { iteration_ = iteration; }
  Status before_layer(Layer layer) override { return client_.wait_layer(layer, iteration_); }
  void on_gradient(int tensor) override {
    if (const Status status = client_.gradient_ready(static_cast<std::uint32_t>(tensor)); !status.ok() && failure_.ok()) failure_ = status;
  }
  Status failure() const { return failure_; }

 private:
  paramserver::WorkerClient& client_;
  Iteration iteration_ = 0;
  Status failure_;
};

class WorkerLoop {
 public:
  WorkerLoop(Workload& workload, runtime::WorkerProcess& process)
      : workload_(workload), process_(process), client_(process.client()), settings_(process.settings()), gates_(process.client()) {
    report_.rank = process.rank().value;
  }

  // Trains; leaves the report in report().
  Status run() {
    PACELINE_ASSIGN_OR_RETURN(loader_, workload_.start_loader(process_.rank(), process_.first(), clock_));
    bool last = false;
    for (Iteration iteration = process_.first(); !last; ++iteration) {
      PACELINE_RETURN_IF_ERROR(train(iteration));
      PACELINE_ASSIGN_OR_RETURN(const bool asked_to_stop, process_.end_iteration(iteration));
      last = asked_to_stop || iteration >= workload_.last_iteration();
      const bool evaluate = last || (settings_.evaluate_every > 0 && iteration % settings_.evaluate_every == 0);
      double accuracy = -1;
      if (evaluate) {
        PACELINE_ASSIGN_OR_RETURN(accuracy, synchronise_and_evaluate(iteration));
      }
      report_progress(iteration, accuracy, last);
    }
    report_.parameters_hash = workload_.parameters_hash();
    report_.peak_bytes = runtime::peak_memory();
    return {};
  }

  const runtime::WorkerReport& report() const { return report_; }

 private:
  Status train(Iteration iteration) {
    mark_ = clock_.now();
    const double before = report_.phases.total();
    PACELINE_ASSIGN_OR_RETURN(const data::MiniBatch* batch, loader_->next());
    split_loading(*batch);
    const Workload::Tensors tensors = workload_.to_tensors(*batch);
    end_phase(Phase::kTransfer);

    workload_.seed(iteration, process_.rank());
    gates_.begin(iteration);
    torch::Tensor loss;
    PACELINE_RETURN_IF_ERROR(workload_.adapter().run_forward(gates_, [&] { loss = workload_.loss(tensors); }));
    const double value = loss.item<double>();
    end_phase(Phase::kForward);
    take_waiting(Phase::kForward);

    PACELINE_RETURN_IF_ERROR(client_.wait_gradients_free());
    const std::vector<int> without = workload_.adapter().run_backward(gates_, [&] { loss.backward(); });
    PACELINE_RETURN_IF_ERROR(gates_.failure());
    unused_.assign(without.begin(), without.end());
    PACELINE_RETURN_IF_ERROR(client_.backward_done(iteration, unused_));
    end_phase(Phase::kBackward);

    if (report_.iterations == 0) report_.loss_first = value;
    report_.loss_last = value;
    ++report_.iterations;
    report_.samples += static_cast<std::int64_t>(batch->indices.size());
    report_.iteration_seconds.push_back(report_.phases.total() - before);
    return {};
  }

  // Everybody waits for the iteration's updates; rank 0 evaluates, off the clock, and the others meet it at the next gate.
  Result<double> synchronise_and_evaluate(Iteration iteration) {
    mark_ = clock_.now();
    PACELINE_RETURN_IF_ERROR(client_.wait_all(iteration));
    end_phase(Phase::kWait);
    take_waiting(Phase::kWait);
    if (process_.rank() != Rank{0}) return -1.0;
    PACELINE_ASSIGN_OR_RETURN(report_.accuracy, workload_.evaluate(clock_));
    return report_.accuracy;
  }

  void end_phase(Phase phase) {
    const TimePoint now = clock_.now();
    report_.phases[phase] += seconds(now - mark_);
    mark_ = now;
  }

  // What the loader had not finished ahead counts, in the proportion in which the loader spent its own time.
  void split_loading(const data::MiniBatch& batch) {
    const double own = batch.load_seconds + batch.preprocess_seconds;
    const double share = own > 0 ? batch.load_seconds / own : 1;
    const TimePoint now = clock_.now();
    const double waited = seconds(now - mark_);
    report_.phases[Phase::kLoad] += waited * share;
    report_.phases[Phase::kPreprocess] += waited * (1 - share);
    mark_ = now;
  }

  // Moves the time at gates out of the phase in which they stood.
  void take_waiting(Phase phase) {
    const paramserver::Account account = client_.take_account();
    report_.phases[phase] -= seconds(account.push + account.pull + account.update + account.wait);
    report_.phases[Phase::kPush] += seconds(account.push);
    report_.phases[Phase::kPull] += seconds(account.pull);
    report_.phases[Phase::kUpdate] += seconds(account.update);
    report_.phases[Phase::kWait] += seconds(account.wait);
    report_.overlapped_push += seconds(account.overlapped_push);
    report_.overlapped_pull += seconds(account.overlapped_pull);
    report_.bytes_pushed += account.bytes_pushed;
    report_.bytes_pulled += account.bytes_pulled;
  }

  void report_progress(Iteration iteration, double accuracy, bool last) {
    const TimePoint now = clock_.now();
    if (settings_.metrics == 0 && accuracy < 0 && !last && now - reported_ < kProgressEvery) return;
    reported_ = now;
    runtime::Json progress{{"rank", report_.rank}, {"iteration", iteration}, {"last", workload_.last_iteration()}, {"loss", report_.loss_last},
                           {"seconds", report_.iteration_seconds.back()}};
    if (accuracy >= 0) progress["accuracy"] = accuracy;
    process_.send_progress(progress.dump());
  }

  const SystemClock clock_;
  Workload& workload_;
  runtime::WorkerProcess& process_;
  paramserver::WorkerClient& client_;
  const runtime::JobSettings& settings_;
  Gates gates_;
  std::unique_ptr<data::Loader> loader_;
  std::vector<std::uint32_t> unused_;
  runtime::WorkerReport report_;
  TimePoint mark_, reported_{};
};

}  // namespace

Status run_worker(Workload& workload, runtime::WorkerProcess& process) {
  WorkerLoop loop(workload, process);
  if (const Status status = loop.run(); !status.ok()) return process.fail(status);
  return process.finish(loop.report());
}

}  // namespace paceline::trainer
