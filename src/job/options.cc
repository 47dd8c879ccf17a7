// The table itself. Its rows, the only places that know which options a job has, are in options_*.cc beside it, by subject.
#include "job/option_rows.h"

namespace paceline::job {

std::span<const Option> options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> rows;
    for (auto make : {task_options, update_options, program_options, schedule_options, wire_options, sync_options, loop_options,
                      saving_options, limits_options}) {
      for (Option& option : make()) rows.push_back(std::move(option));
    }
    return rows;
  }();
  return all;
}

}  // namespace paceline::job
