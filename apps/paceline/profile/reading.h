// How fast a data set's files are read, one file for each image against one record file (the paper's advice to arrange samples so
// that they can be read in sequence). Files made for the purpose lie in a folder that is gone afterwards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/description.h"

namespace paceline::cli {

// Writes `count` PNG images of side x side, spread over `classes` folders. Every image differs.
Status write_images(const std::filesystem::path& folder, std::int64_t side, std::int64_t count, std::int64_t classes);

// Seconds for each sample, read in the order of a training epoch.
struct ReadingTime {
  double load = 0;        // bytes into memory
  double preprocess = 0;  // decoding, resizing, normalising
};
struct Reading {
  ReadingTime cold;  // after the system was asked to forget the files
  ReadingTime warm;  // from its memory
};
// `files`: what to have forgotten before the cold pass.
Result<Reading> measure_reading(const std::string& dataset, const std::filesystem::path& data_root,
                                const std::filesystem::path& files, std::int64_t mini_batch);

// Packs the data set into `file`.
Status pack_records(const std::string& dataset, const std::filesystem::path& data_root, const std::filesystem::path& file);

}  // namespace paceline::cli
