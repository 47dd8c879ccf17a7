// `paceline bench schedules`.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_bench_schedules(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
