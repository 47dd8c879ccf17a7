#include "runtime/coordinator_process.h"

#include "base/log.h"
#include "base/wrong.h"

namespace paceline::runtime {
CoordinatorProcess::CoordinatorProcess(transport::Transport& transport, CoordinatorProcessOptions options)
    : options_(std::move(options)),
      checkpoints_(system_files(), {.workers = options_.coordinator.workers,
                                    .servers = options_.coordinator.servers,
                                    .release = options_.coordinator.release,
                                    .warn = [](const std::string& warning) { log::warn("{}", warning); }}),
      coordinator_(transport, options_of(options_), callbacks()) {}

CoordinatorOptions CoordinatorProcess::options_of(const CoordinatorProcessOptions& options) {
  CoordinatorOptions own = options.coordinator;
  own.timeline = !options.trace_file.empty() ? &timeline_ : nullptr;
  return own;
}

CoordinatorCallbacks CoordinatorProcess::callbacks() {
  CoordinatorCallbacks callbacks;
  callbacks.on_progress = options_.on_progress;
  callbacks.on_agreed = [this](job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering) {
    return on_agreed(spec, table, gathering);
  };
  callbacks.on_saved = [this](const wire::Seat& from, Iteration iteration, const std::string& part) {
    checkpoints_.on_saved(from, iteration, part);
  };
  callbacks.on_ended = [this](const wire::Stop& stop, const std::optional<report::Json>& report) {
    stop_ = stop;
    report_ = report;
    options_.on_ended();
  };
  return callbacks;
}

Status CoordinatorProcess::on_agreed(job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering) {
  PACELINE_RETURN_IF_ERROR(checkpoints_.begin(spec, table));
  PACELINE_ASSIGN_OR_RETURN(decided_, options_.decide(spec, table, gathering));
  // Collective operations decide which bits are computed; a schedule does not, and may be another one after a resume.
  if (options_.coordinator.servers == 0) checkpoints_.record(spec);
  return {};
}

Result<report::Json> CoordinatorProcess::write_timeline() const {
  const std::string& path = options_.trace_file;
  if (path.empty()) return report::Json();
  if (timeline_.empty()) {
    log::warn("--trace {} was not written: the job ended before its processes had told what they recorded", path);
    return report::Json();
  }
  auto written = timeline_.write(system_files(), path);
  if (written.ok()) return written;
  const Status& why = written.status();
  return error(ErrorKind::kIo, "--trace {} was not written: {}", path, why.message()).because(cause_of(why));
}

CoordinatorProcess::Ending CoordinatorProcess::ending() {
  checkpoints_.finish();
  const std::string newest = checkpoints_.newest();
  auto trace = write_timeline();
  if (report_) {
    report_->update(decided_);
    (*report_)["trace"] = trace.ok() ? std::move(*trace) : report::Json();
    if (!newest.empty()) (*report_)["checkpoint"] = newest;
  }
  if (stop_.kind == wire::StopKind::kFailed && stop_.error != ErrorKind::kBadRequest && !newest.empty()) {
    stop_.reason += ". " + checkpoints_.way_on();
  }
  if (stop_.kind != wire::StopKind::kDone) {
    if (!trace.ok()) log::warn("{}", trace.status().message());
    return {stop_.status(), report_};
  }
  const Status saved = checkpoints_.last_one();
  return {!saved.ok() ? saved : trace.ok() ? stop_.status() : trace.status(), report_};
}

}  // namespace paceline::runtime
