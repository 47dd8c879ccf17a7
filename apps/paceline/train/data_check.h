// What is wrong with a data set's name, without a look into files: the trainer, which opens the data set, takes a second to load.
#pragma once

#include <string>

#include "base/status.h"

namespace paceline::cli {

// Whether there is a kind of data set of this name; what is behind its colon is not looked at. kBadRequest names --dataset.
Status check_data_set_name(const std::string& spec);
// What it names is not there, or is not all that its kind needs.
Status check_data_at_hand(const std::string& spec);

}  // namespace paceline::cli
