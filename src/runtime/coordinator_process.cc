#include "runtime/coordinator_process.h"

#include "base/log.h"
#include "base/new_file.h"
#include "base/utf8.h"

namespace paceline::runtime {
namespace {

// A timeline that cannot be written must not stop the training, so it is found out before that one is needed.
bool can_trace(const std::string& path) {
  if (path.empty()) return false;
  const Status status = is_utf8(path) ? can_write(system_files(), path)
                                      : error(ErrorKind::kBadRequest, "its name is no UTF-8 text, and the report has it");
  if (!status.ok()) log::warn("--trace {} cannot be written, and training goes on without it: {}", path, status.message());
  return status.ok();
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(transport::Transport& transport, CoordinatorProcessOptions options)
    : options_(std::move(options)),
      traces_(can_trace(options_.trace_file)),
      checkpoints_(system_files(), {.workers = options_.coordinator.workers,
                                    .servers = options_.coordinator.servers,
                                    .release = options_.coordinator.release,
                                    .warn = [](const std::string& warning) { log::warn("{}", warning); }}),
      coordinator_(transport, options_of(options_), callbacks()) {}

CoordinatorOptions CoordinatorProcess::options_of(const CoordinatorProcessOptions& options) {
  CoordinatorOptions own = options.coordinator;
  own.timeline = traces_ ? &timeline_ : nullptr;
  return own;
}

CoordinatorCallbacks CoordinatorProcess::callbacks() {
  CoordinatorCallbacks callbacks;
  callbacks.on_progress = options_.on_progress;
  callbacks.on_agreed = [this](job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering) {
    return on_agreed(spec, table, gathering);
  };
  callbacks.on_saved = [this](const session::PeerName& from, Iteration iteration, const std::string& part) {
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

report::Json CoordinatorProcess::write_timeline() const {
  if (!traces_) return nullptr;
  const std::string& path = options_.trace_file;
  if (timeline_.empty()) {
    log::warn("--trace {} was not written: the job ended before its processes had told what they recorded", path);
    return nullptr;
  }
  auto written = timeline_.write(system_files(), path);
  if (written.ok()) return std::move(*written);
  log::warn("--trace {} was not written: {}", path, written.status().message());
  return nullptr;
}

CoordinatorProcess::Ending CoordinatorProcess::ending() {
  checkpoints_.finish();
  const std::string newest = checkpoints_.newest();
  report::Json trace = write_timeline();
  if (report_) {
    report_->update(decided_);
    (*report_)["trace"] = std::move(trace);
    if (!newest.empty()) (*report_)["checkpoint"] = newest;
  }
  if (stop_.kind == wire::StopKind::kFailed && stop_.error != ErrorKind::kBadRequest && !newest.empty()) {
    stop_.reason += ". " + checkpoints_.way_on();
  }
  const Status saved = stop_.kind == wire::StopKind::kDone ? checkpoints_.last_one() : Status();
  return {saved.ok() ? stop_.status() : saved, report_};
}

}  // namespace paceline::runtime
