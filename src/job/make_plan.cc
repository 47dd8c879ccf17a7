#include "job/make_plan.h"

#include <utility>

namespace paceline::job {

Result<std::shared_ptr<const job::Plan>> make_plan(const job::JobSpec& spec, wire::TensorTable table, std::int32_t workers,
                                                   std::int32_t servers, Iteration first) {
  job::PlanOptions options;
  options.workers = workers;
  options.servers = spec.has_servers() ? servers : 1;
  options.first = first;
  PACELINE_ASSIGN_OR_RETURN(options.schedule, job::schedule_of(spec));
  options.schedule.cut = scheduling::scaled(options.schedule.cut, spec.task.scale);
  options.message_start_up = from_seconds(spec.task.message_start_up);
  options.sync = spec.sync;
  options.update = job::server_update(spec);
  PACELINE_ASSIGN_OR_RETURN(options.wire, job::wire_of(spec));
  PACELINE_RETURN_IF_ERROR(job::assign_groups(spec.groups, table, options.update));
  return job::Plan::make(std::move(table), options);
}

}  // namespace paceline::job
