// The table of the options of a job (job/option.h) for programs.
#pragma once

#include "report/report.h"

namespace paceline::library {

// An array with an object for each option: name, type, default, legal, choices, from, to, below, agree, since, section, help. What
// there is not is null.
report::Json options_json();
// A JSON schema of a --config file.
report::Json options_schema();

}  // namespace paceline::library
