// The files that a data set is made of.
#pragma once

#include <filesystem>
#include <string_view>

namespace paceline::trainer::data {

// Whether the data set (open.h) reads `file`, or would when it is opened next; whoever writes there destroys data. Other files
// beside those of a data set are none of it, nor are devices and pipes. False for a `spec` that is wrong.
bool is_file_of(std::string_view spec, const std::filesystem::path& data_root, const std::filesystem::path& file);

}  // namespace paceline::trainer::data
