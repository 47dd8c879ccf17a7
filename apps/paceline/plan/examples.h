// How each question of `paceline plan` is asked on a command line.
#pragma once

#include <string>

namespace paceline::cli {

// Commands that work when pasted, one per line. Requires a question other than "job".
const char* examples_of(const std::string& question);

}  // namespace paceline::cli
