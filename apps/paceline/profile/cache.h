// What `paceline profile` measured on this machine, kept for `plan job`.
#pragma once

#include <string>

#include "planner/questions/measurements.h"

namespace paceline::cli {

using planner::Json;

// What times depend on: processor, its usable cores, and the libraries this program was built with.
Json fingerprint();

// The cache's file: PACELINE_CACHE, else XDG_CACHE_HOME/paceline, else HOME/.cache/paceline, /measurements.json.
std::string cache_path();

struct Cache {
  planner::Measurements measurements;
  std::string notice;  // why the file was not used: of another machine, or damaged; "" otherwise
};
// Nothing there is an empty cache.
Cache load_cache();
// Errors: kIo when the folder cannot be written.
Status store_cache(const planner::Measurements& measurements);

}  // namespace paceline::cli
