// `paceline bench prediction`.
#pragma once

#include "paceline/command.h"

namespace paceline::cli {

void add_bench_prediction(CLI::App& bench, Chosen& chosen);

}  // namespace paceline::cli
