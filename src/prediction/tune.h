// Chooses how a job communicates by predicting its candidates (predict.h): the slice around the size that the link's start-up asks
// for, whether small tensors are merged, and the way values come back. Pure; free to call from anywhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "prediction/predict.h"
#include "scheduling/slice_size.h"

namespace paceline::prediction {

// What the user has fixed.
struct Given {
  std::optional<std::int64_t> slice, merge;  // parameters
};

struct Candidate {
  scheduling::ScheduleOptions schedule;
  Prediction predicted;
};

struct Choice {
  scheduling::ScheduleOptions schedule;
  Prediction predicted;
  std::vector<Candidate> candidates;  // in the order they were tried; the first is what the formulas alone would take
  std::string why;                    // for people
};

// A candidate must be faster than the one before it by this share to be preferred.
inline constexpr double kWorthAnother = 0.005;

// By the formulas alone: slices of best_slice, and what 2 start-ups' worth of bytes covers is merged.
scheduling::ScheduleOptions by_formula(Bytes model, const Cluster& cluster, const scheduling::SliceLimits& limits,
                                       const Given& given);

// Errors: as predict().
Result<Choice> tune(const Job& job, const Cluster& cluster, const scheduling::SliceLimits& limits, const Given& given);

}  // namespace paceline::prediction
