#include "job/make_plan.h"

#include <algorithm>
#include <utility>

#include "wire/message.h"

namespace paceline::job {
namespace {

// A unit is one message, with a number more for each tensor where there are no servers.
Status check_units(const Plan& plan, bool has_servers) {
  constexpr auto kMost = static_cast<std::int64_t>(wire::kMaxMessageBytes / sizeof(float));
  const scheduling::UnitPlan& units = plan.units();
  const auto larger = std::ranges::find_if(
      units.units, [&](const scheduling::Unit& unit) { return unit.elements + (has_servers ? 0 : unit.parts) > kMost; });
  if (larger == units.units.end()) return {};
  const bool cut = has_servers && larger->id < units.moving;
  return error(ErrorKind::kBadRequest, "{} elements from tensor \"{}\" on would be one message; at most {}, 64 GiB, are legal: {}",
               larger->elements, plan.table().tensors[units.parts_of(*larger).front().tensor].name, kMost,
               larger->parts > 1 ? "give a smaller --merge"
               : cut             ? "take smaller slices (--schedule p3, --slice)"
                                 : "make several tensors of it");
}

}  // namespace

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
  PACELINE_ASSIGN_OR_RETURN(auto plan, job::Plan::make(std::move(table), options));
  PACELINE_RETURN_IF_ERROR(check_units(*plan, spec.has_servers()));
  return plan;
}

}  // namespace paceline::job
