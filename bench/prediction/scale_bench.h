// What it costs to step one iteration of a large job in virtual time: of a thousand workers and two hundred servers, for example.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace paceline::bench {

struct ScaleBenchOptions {
  std::string table;  // file of a layer table
  std::int32_t workers = 1'000, servers = 200;
  std::string schedule = "p3";
  std::string sync = "bsp";
  double bytes_per_second = 1.25e9;  // of every link
};

struct ScaleBenchReport {
  std::int64_t units = 0;
  double iteration = 0;   // as predicted: seconds from all initial values to the last ones of a job of one iteration
  double seconds = 0;     // that took, of one core, the making of all workers and servers included
  double peak_bytes = 0;  // of this process
};

// Blocks for a minute or two with the default. Errors: kBadRequest for a table that cannot be read, unknown names, counts out of
// range.
Result<ScaleBenchReport> run_scale_bench(const ScaleBenchOptions& options);

}  // namespace paceline::bench
