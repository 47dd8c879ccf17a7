// `paceline bench sync`.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_bench_sync(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
