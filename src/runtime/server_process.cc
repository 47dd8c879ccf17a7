#include "runtime/server_process.h"

#include "base/log.h"

namespace paceline::runtime {
namespace {

constexpr Duration kFarewellLimit = std::chrono::seconds(1);

MemberOptions as_server(MemberOptions options) {
  options.role = session::Role::kServer;
  return options;
}

}  // namespace

ServerProcess::ServerProcess(transport::Transport& transport, MemberOptions options, std::function<void(const wire::Stop&)> ended)
    : transport_(transport), ended_(std::move(ended)), member_(transport, as_server(std::move(options)), *this) {}

Result<paramserver::MessageSink*> ServerProcess::on_welcome(const wire::Welcome& welcome) {
  rank_ = welcome.rank;
  PACELINE_ASSIGN_OR_RETURN(const JobSettings settings, from_settings(welcome.settings));
  PACELINE_ASSIGN_OR_RETURN(
      auto plan, make_job_plan(settings, welcome.table, welcome.workers, static_cast<std::int32_t>(welcome.servers.size()),
                               settings.resume_iteration + 1));
  paramserver::ServerCallbacks callbacks;
  callbacks.on_failed = [this](const Status& reason) { member_.fail(reason); };
  callbacks.on_iteration_complete = [this](Iteration iteration) {
    if (checkpoints_ != nullptr) checkpoints_->on_iteration_complete(iteration);
  };
  PACELINE_ASSIGN_OR_RETURN(
      service_, paramserver::ServerService::make(std::move(plan), Rank{rank_}, transport_.loop(), member_, std::move(callbacks)));
  if (!settings.resume_from.empty())
    PACELINE_RETURN_IF_ERROR(restore_server(system_files(), settings.resume_from, service_->core()));
  if (!settings.checkpoint.empty()) {
    checkpoints_ = std::make_unique<ServerCheckpoints>(
        system_files(), settings, transport_.loop(), *service_,
        [this](Iteration iteration, const PartSummary& summary) { member_.send_saved(iteration, encode(summary)); });
  }
  return service_.get();
}

void ServerProcess::on_finish_at(Iteration last) { finish_at_ = last; }

void ServerProcess::on_end(const wire::Stop& stop) {
  // A job that was interrupted twice ends in the middle of an iteration, which is no state to save.
  const bool in_order = stop.kind == wire::StopKind::kDone || (stop.kind == wire::StopKind::kInterrupted &&
                                                               checkpoints_ != nullptr && finish_at_ == checkpoints_->complete());
  if (checkpoints_ != nullptr && in_order)
    checkpoints_->finish([this, stop] { leave(stop); });
  else
    leave(stop);
}

void ServerProcess::leave(const wire::Stop& stop) {
  if (stop.kind != wire::StopKind::kFailed && service_ != nullptr) {
    ServerReport report;
    report.rank = rank_;
    report.peak_bytes = peak_memory();
    report.gradient_bytes_high = service_->core().counters().gradient_bytes_high;
    report.updates = service_->core().counters().updates;
    member_.send_report(encode(report));
  }
  member_.leave(kFarewellLimit, [this, stop] { ended_(stop); });
}

}  // namespace paceline::runtime
