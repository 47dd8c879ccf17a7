// `paceline bench figures`, which becomes bench/figures/figures.py.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_bench_figures(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
