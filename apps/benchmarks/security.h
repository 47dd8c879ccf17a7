// `paceline bench security`.
#pragma once

#include "benchmarks/parts.h"

namespace paceline::cli {

int bench_security(const PartOptions& options);

}  // namespace paceline::cli
