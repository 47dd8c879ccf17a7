#include "trainer/worker_loop.h"

#include <map>

#include <torch/torch.h>

#include "base/new_file.h"
#include "trainer/caught.h"
#include "trainer/model_files.h"
#include "trainer/stepper.h"
#include "training/mini_batches.h"

namespace paceline::trainer {
namespace {

class WorkerLoop {
 public:
  WorkerLoop(Workload& workload, runtime::WorkerProcess& process)
      : workload_(workload),
        process_(process),
        settings_(process.settings()),
        stepper_(workload.adapter(), process),
        progress_(process, workload.last_iteration()) {}

  ~WorkerLoop() { process_.exchange().read_ahead({}); }
  WorkerLoop(const WorkerLoop&) = delete;
  WorkerLoop& operator=(const WorkerLoop&) = delete;

  // Trains; leaves the report in report().
  Status run() {
    PACELINE_RETURN_IF_ERROR(prepare());
    PACELINE_RETURN_IF_ERROR(start_loader());
    bool last = false;
    training::MiniBatches mini_batches(process_, stepper_.timer(), workload_.last_iteration());
    PACELINE_RETURN_IF_ERROR(mini_batches.begin());
    for (Iteration iteration = process_.first(); !last; ++iteration) {
      PACELINE_RETURN_IF_ERROR(train(iteration));
      const Iteration done = mini_batches.done(iteration);
      PACELINE_ASSIGN_OR_RETURN(last, mini_batches.was_last(iteration));
      save_part_if_due(process_, workload_.adapter(), iteration, last ? Place::kLast : Place::kMiddle);
      const bool evaluate = last || (settings_.task.evaluate_every > 0 && iteration % settings_.task.evaluate_every == 0);
      double accuracy = -1;
      if (evaluate) {
        PACELINE_ASSIGN_OR_RETURN(accuracy, synchronise_and_evaluate(iteration, last));
      }
      progress_.tell(stepper_.report(), iteration, done, accuracy, last ? Importance::kLast : Importance::kUsual);
    }
    PACELINE_RETURN_IF_ERROR(evaluate_kept());
    stepper_.report().parameters_hash = workload_.parameters_hash();
    stepper_.report().peak_bytes = report::peak_memory();
    return {};
  }

  const report::WorkerReport& report() { return stepper_.report(); }

  // After run(): the trained model, which all updates have reached.
  Status export_if_asked() {
    if (process_.rank() != Rank{0} || settings_.saving.export_file.empty()) return {};
    return export_model(settings_.saving.export_file, workload_.adapter(), settings_, workload_.data());
  }

 private:
  using Importance = training::ProgressTeller::Importance;

  // What can fail is found out before hours of training.
  Status prepare() {
    if (process_.rank() == Rank{0} && !settings_.saving.export_file.empty())
      PACELINE_RETURN_IF_ERROR(can_write(system_files(), settings_.saving.export_file));
    if (settings_.saving.from.empty()) return {};
    if (process_.first() > workload_.last_iteration()) {
      return error(ErrorKind::kBadRequest,
                   "nothing is left to train: the checkpoint {} is of iteration {} and the job has {}; ask for more with "
                   "--iterations or --epochs",
                   settings_.saving.from, settings_.saving.iteration, workload_.last_iteration())
          .because({"contradiction", ""});
    }
    return restore_part(process_, workload_.adapter());
  }

  Status train(Iteration iteration) {
    report::WorkerReport& report = stepper_.report();
    const double before = report.phases.total();
    stepper_.begin();
    PACELINE_ASSIGN_OR_RETURN(const data::MiniBatch* batch, loader_->next());
    stepper_.timer().end_loading(batch->load_seconds, batch->preprocess_seconds);
    const Workload::Tensors tensors = workload_.to_tensors(*batch);
    stepper_.timer().end(report::Phase::kTransfer);
    workload_.seed(iteration, process_.rank());
    PACELINE_RETURN_IF_ERROR(
        stepper_.step(iteration, static_cast<std::int64_t>(batch->indices.size()), [&] { return workload_.loss(tensors); })
            .status());
    report.iteration_seconds.add(report.phases.total() - before);
    return {};
  }

  Status start_loader() {
    if (!process_.exchange().plan().uneven()) {
      PACELINE_ASSIGN_OR_RETURN(loader_, workload_.start_loader(process_.rank(), process_.first(), clock_));
      return {};
    }
    PACELINE_ASSIGN_OR_RETURN(loader_, workload_.start_loader_of_handed_out(clock_));
    process_.exchange().read_ahead([this, workers = process_.workers()](std::int64_t number) {
      const training::MiniBatchPlace place = training::place_of(number, workers);
      if (place.iteration <= workload_.last_iteration()) loader_->hand_out(place.iteration, place.rank);
    });
    return {};
  }

  // Where workers do the same, everybody waits for the iteration's updates; rank 0 evaluates, off the clock, and the others meet it
  // at the next gate.
  Result<double> synchronise_and_evaluate(Iteration iteration, bool last) {
    PACELINE_RETURN_IF_ERROR(last ? stepper_.timer().finish(iteration) : stepper_.synchronise(iteration));
    if (process_.rank() != Rank{0}) return -1.0;
    report::WorkerReport& report = stepper_.report();
    report::add_evaluation(report.evaluations, {iteration, report.phases.total(), -1});
    if (settings_.task.evaluate_late && !last) {
      kept_.emplace(iteration, workload_.snapshot());
      return -1.0;
    }
    PACELINE_ASSIGN_OR_RETURN(report.accuracy, workload_.evaluate(clock_));
    report.evaluations.back().accuracy = report.accuracy;
    return report.accuracy;
  }

  // What --evaluate-late has put off, in the order in which it was.
  Status evaluate_kept() {
    if (kept_.empty()) return {};
    const Workload::Snapshot final_state = workload_.snapshot();
    for (report::WorkerReport::Evaluation& evaluation : stepper_.report().evaluations) {
      const auto then = kept_.find(evaluation.iteration);
      if (then == kept_.end()) continue;
      workload_.restore(then->second);
      PACELINE_ASSIGN_OR_RETURN(evaluation.accuracy, workload_.evaluate(clock_));
    }
    workload_.restore(final_state);
    return {};
  }

  const SystemClock clock_;
  Workload& workload_;
  runtime::WorkerProcess& process_;
  const job::JobSpec& settings_;
  Stepper stepper_;
  std::unique_ptr<data::Loader> loader_;
  std::map<Iteration, Workload::Snapshot> kept_;  // of --evaluate-late
  training::ProgressTeller progress_;
};

}  // namespace

Status run_worker(Workload& workload, runtime::WorkerProcess& process) {
  const std::string who = fmt::format("worker {}", process.rank().value);
  WorkerLoop loop(workload, process);
  if (const Status status = caught(who, [&] { return loop.run(); }); !status.ok()) return process.fail(status);
  // A file that cannot be written must not cost the others the job's checkpoint and report.
  const Status exported = caught(who, [&] { return loop.export_if_asked(); });
  const Status verdict = process.finish(loop.report());
  return verdict.ok() ? exported : verdict;
}

}  // namespace paceline::trainer
