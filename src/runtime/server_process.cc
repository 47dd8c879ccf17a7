#include "runtime/server_process.h"

#include "job/make_plan.h"
#include "job/option.h"

namespace paceline::runtime {
namespace {

MemberOptions as_server(MemberOptions options) {
  options.role = wire::Role::kServer;
  return options;
}

}  // namespace

ServerProcess::ServerProcess(transport::Transport& transport, MemberOptions options, std::function<void(const wire::Stop&)> ended)
    : ended_(std::move(ended)), member_(transport, as_server(std::move(options)), *this), role_(transport.loop(), member_) {}

Result<JobStart> ServerProcess::on_welcome(const wire::Welcome& welcome) {
  PACELINE_ASSIGN_OR_RETURN(const job::JobSpec settings, job::from_settings(welcome.settings));
  PACELINE_ASSIGN_OR_RETURN(auto plan, make_plan(settings, welcome.table, welcome.workers,
                                                 static_cast<std::int32_t>(welcome.servers.size()), settings.saving.iteration + 1));
  if (settings.watching.trace) recorder_ = std::make_unique<timeline::TimelineRecorder>();
  JobStart start{.egress = plan->egress_rules(), .observer = recorder_.get()};
  PACELINE_ASSIGN_OR_RETURN(start.ends.server, role_.begin(Rank{welcome.rank}, settings, std::move(plan), recorder_.get()));
  return start;
}

void ServerProcess::on_end(const wire::Stop& stop) {
  const bool recorded = recorder_ != nullptr && stop.kind != wire::StopKind::kFailed;
  const Duration limit = recorded ? timeline::TimelineRecorder::kFarewellLimit : session::Endpoint::kFarewell;
  role_.end(stop, [this, stop, limit] { member_.leave(limit, [this, stop] { ended_(stop); }); });
}

}  // namespace paceline::runtime
