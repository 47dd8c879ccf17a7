// `paceline bench planner`: the planner's predictions against what a step then takes.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_planner_bench(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
