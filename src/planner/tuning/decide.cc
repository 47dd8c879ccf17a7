#include "planner/tuning/decide.h"

#include "planner/tuning/choose_collective.h"
#include "planner/tuning/choose_schedule.h"

namespace paceline::tuning {

Result<report::Json> decide(job::JobSpec& spec, const wire::TensorTable& table, std::int32_t workers, std::int32_t servers,
                            const runtime::Gathering& gathering) {
  report::Json tuned, collective;
  if (servers == 0) {
    PACELINE_ASSIGN_OR_RETURN(collective, choose_collective(spec, table, workers, gathering));
  } else {
    PACELINE_ASSIGN_OR_RETURN(tuned, choose_schedule(spec, table, workers, servers, gathering, measured_server_cost));
  }
  return report::Json{{"tuned", std::move(tuned)}, {"collective", std::move(collective)}};
}

}  // namespace paceline::tuning
