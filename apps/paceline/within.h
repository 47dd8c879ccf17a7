// Whole numbers of the command line that are no options of a job, which have their ranges in the table (job/option.h).
#pragma once

#include <cstdint>

#include "paceline/command.h"

namespace paceline::cli {

// What is given to `option` is a whole number from `least` to `most`, or refused with these. Returns `option`.
CLI::Option* within(CLI::Option* option, std::int64_t least, std::int64_t most);

}  // namespace paceline::cli
