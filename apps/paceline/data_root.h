// Where the data sets that come with the set-up lie.
#pragma once

#include <filesystem>

namespace paceline::cli {

// The environment variable PACELINE_DATA where it is set; else the first that exists of ./.venv/data, EXE/../../../.venv/data (a
// program in build/<preset>/bin) and EXE/../share/paceline/data (an installed one), EXE being the program's folder; else
// ./.venv/data, so that a message names it.
std::filesystem::path data_root();

}  // namespace paceline::cli
