// Outputs beside the files of a data set.
#pragma once

#include "paceline/option_files.h"

namespace paceline::cli {

// Refuses an output that is a file of the data set `spec`. `asked`: the option that names the data set, where one does.
Status check_no_data(const std::string& spec, NamedFiles written, const char* asked = nullptr);

}  // namespace paceline::cli
