// `paceline bench collectives`.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_bench_collectives(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
