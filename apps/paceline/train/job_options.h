// The options of a job on the command line: made from the one table (job/option.h), so no option is named here.
#pragma once

#include <initializer_list>

#include "job/option.h"
#include "paceline/command.h"

namespace paceline::cli {

// Adds the options of a section, which fill `spec`. `spec` outlives `command`.
void add_job_options(CLI::App& command, job::JobSpec& spec, job::Section section);

}  // namespace paceline::cli
