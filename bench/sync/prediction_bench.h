// How long the prediction of a barrier takes: ZipLine, FullGridScan and GridScan over the grid of the ElasticBSP paper's Table II
// and beyond it, beside the paper's own numbers. One core.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace paceline::bench {

struct PredictionCase {
  std::int64_t workers = 10;
  std::int64_t lookahead = 15;
};

struct PredictionBenchOptions {
  std::vector<PredictionCase> cases;
  int trials = 10;     // of each algorithm and case, each with other intervals; the paper's number
  double longest = 3;  // an algorithm that is expected to take longer (seconds) is tried once; more than ten times that, never
  std::function<void(const PredictionCase&)> on_case;  // before each; may be empty
};

// The paper's six cases.
std::vector<PredictionCase> table_2_cases();
// They, and up to 10 000 workers.
std::vector<PredictionCase> all_prediction_cases();

// [{"workers", "lookahead", "algorithm", "objective", "seconds": spread or null, "trials", "paper_seconds" or null, "times_faster"
// or null, "value_of_zip_line": mean value of the objective reached / ZipLine's, at least 1}]. Errors: kCorrupt when ZipLine's span
// is not the least, or a waiting share lies below ZipLine's.
Result<nlohmann::ordered_json> run_prediction_bench(const PredictionBenchOptions& options);

}  // namespace paceline::bench
