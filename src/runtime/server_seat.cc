#include "runtime/server_seat.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/saved_state.h"

namespace paceline::runtime {

Result<session::ChannelEnd*> ServerSeat::begin(const BegunJob& job) {
  rank_ = job.rank;
  const job::JobSpec& settings = job.settings;
  paramserver::ServerCallbacks callbacks;
  callbacks.on_failed = [this](const Status& reason) { node_.fail(reason); };
  callbacks.on_iteration_complete = [this](Iteration iteration) {
    if (checkpoints_ != nullptr) checkpoints_->on_iteration_complete(iteration);
  };
  callbacks.on_skipped = [this](Iteration iteration, const Status& why) {
    if (why.ok() && rank_ != service_->core().plan().pacing_server()) return;  // it was found on another server
    log::warn("iteration {} changes nothing: {} (--non-finite skip)", iteration,
              why.ok() ? "a gradient is not finite" : why.message());
  };
  callbacks.on_question = [this](sync::BarrierQuestion question) { predict(std::move(question)); };
  if (node_.recorder() != nullptr) events_.add(*node_.recorder());
  uneven_ = job.plan->uneven();
  if (rank_ == job.plan->pacing_server() && (uneven_ || settings.watching.pace)) {
    report::PaceRecord::Tell tell;
    if (settings.watching.pace)
      tell = [this](report::Json event) { node_.send_progress(report::Json{{"pace", std::move(event)}}.dump()); };
    pace_ = std::make_unique<report::PaceRecord>(std::move(tell));
    events_.add(*pace_);
    callbacks.on_superstep = [this](const sync::Superstep& superstep) { pace_->on_superstep(superstep); };
  }
  callbacks.events = events_.if_heard();
  PACELINE_ASSIGN_OR_RETURN(service_,
                            paramserver::ServerService::make(job.plan, rank_, node_.loop(), node_.sender(), std::move(callbacks)));
  saving_ = settings.saving;
  seal_ = job.seal;
  if (!settings.saving.directory.empty()) {
    checkpoints_ =
        std::make_unique<checkpoint::StateCheckpoints>(system_files(), settings, job.seal, node_.loop(), source_of(*service_),
                                                       [this](Iteration iteration, const checkpoint::PartSummary& summary) {
                                                         node_.send_saved(role(), iteration, encode(summary));
                                                       });
  }
  return service_.get();
}

Status ServerSeat::restore() { return restore_state(system_files(), saving_, seal_, service_->core()); }

// Off the loop, which serves the workers meanwhile: they need the answer only when they have ended the superstep's first iteration.
void ServerSeat::predict(sync::BarrierQuestion question) {
  if (predicting_ == nullptr) predicting_ = std::make_unique<TaskThread>();
  predicting_->run([this, question = std::move(question)] {
    const SystemClock clock;
    const TimePoint begin = clock.now();
    std::vector<Iteration> barriers = sync::answer(question);
    const Duration took = clock.now() - begin;
    node_.loop().post([this, took, workers = question.workers, barriers = std::move(barriers)] {
      if (pace_ != nullptr) pace_->on_predicted(took);
      service_->set_barriers(workers, barriers);
    });
  });
}

void ServerSeat::end(const wire::Stop& stop, std::function<void()> done) {
  // A job that was interrupted twice ends in the middle of an iteration, which is no state to save.
  const bool in_order = stop.kind == wire::StopKind::kDone || (stop.kind == wire::StopKind::kInterrupted &&
                                                               checkpoints_ != nullptr && finish_at_ == checkpoints_->complete());
  const auto finish = [this, stop, done = std::move(done)] {
    report(stop);
    done();
  };
  if (checkpoints_ != nullptr && in_order)
    checkpoints_->finish(finish);
  else
    finish();
}

void ServerSeat::report(const wire::Stop& stop) {
  if (stop.kind == wire::StopKind::kFailed || service_ == nullptr) return;
  report::ServerReport report;
  report.rank = rank_.value;
  report.peak_bytes = report::peak_memory();
  report.gradient_bytes_high = service_->core().counters().gradient_bytes_high;
  report.updates = service_->core().counters().updates;
  report.reorderings = static_cast<std::int64_t>(service_->counters().reorderings);
  report.link = node_.link();
  report.values_wait = node_.values_wait();
  report.shares_process = node_.holds_several() ? 1 : 0;
  if (pace_ != nullptr && uneven_) report.pace = pace_->detail();
  node_.tell_timeline();
  node_.send_report(role(), encode(report));
}

}  // namespace paceline::runtime
