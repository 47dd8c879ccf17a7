// Chooses how a job communicates by predicting its candidates (predict.h): the slice around the size that the link's start-up asks
// for, how much is merged, the window, the way values come back, and whether urgency decides at all: where the network is hardly
// used, first come, first served can be a few per cent faster. Pure; free to call from anywhere.
//
// The search goes along one of these at a time, keeps what is best, and goes round again until nothing better is found; then once
// more from a place far away, and from any combination seen on the way that is worth it. A prediction costs milliseconds to tens of
// milliseconds, and a test compares what is found with the best of all combinations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduling/slice_size.h"
#include "simulation/predict.h"

namespace paceline::tuning {

// What the user has fixed.
struct Given {
  std::optional<std::int64_t> slice, merge;  // parameters
  std::optional<scheduling::WindowRule> window;
  std::optional<scheduling::Return> back;
  // With back = kPullInBatches; nothing: as tuned() has it.
  std::optional<scheduling::BatchingAlgorithm> batching;
  std::optional<scheduling::PushWhen> push;
  std::optional<scheduling::OrderedPlaces> places;
};

struct Candidate {
  scheduling::ScheduleOptions schedule;
  simulation::Prediction predicted;
};

struct Choice {
  scheduling::ScheduleOptions schedule;
  simulation::Prediction predicted;
  std::vector<Candidate> candidates;  // in the order they were tried; the first is what the formulas alone would take
  std::string why;                    // for people: of the candidates, not of their sizes
};

// A candidate must be faster than the best one so far by this share to be preferred: predictions are no better than that.
inline constexpr double kWorthAnother = 0.01;

// Of larger slices than the best candidate's the largest is taken that is predicted to take no longer than the fastest candidate
// and this share: a message takes the processors of both ends about as long whatever its size, which no prediction of the time
// shows where they have time to spare.
inline constexpr double kAsGood = 0.01;
// Where the model is cut into fewer slices than so many it is less, by the square of what is missing, unless moving the model takes
// less than this share of computing: nodes that are not in step wait for whole slices, which is not predicted either. With slices
// of a 120th of Inception-v3, where the link decided, iterations took 5 % longer than predicted, of a 240th 2 %.
inline constexpr double kFineSlices = 500;
inline constexpr double kIdleLink = 0.8;

// What is tried of each, in this order; the first of each is by_formula's, unless the user has fixed another.
struct Grid {
  std::vector<std::int64_t> slices, merges;  // parameters
  std::vector<scheduling::WindowRule> windows;
  std::vector<scheduling::Return> backs;
  std::vector<scheduling::OrderedPlaces> places;
};
Grid candidates_of(const simulation::Job& job, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                   const Given& given);

// About how many an iteration has: each piece of the model is pushed by and returned to every worker.
double messages_of(const wire::TensorTable& table, const scheduling::ScheduleOptions& schedule, std::int32_t workers);

// By the formulas alone: slices of best_slice, what 2 start-ups' worth of bytes covers is merged, broadcast.
scheduling::ScheduleOptions by_formula(Bytes model, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                                       const Given& given);

// Errors: as predict().
Result<Choice> tune(const simulation::Job& job, const simulation::Cluster& cluster, const scheduling::SliceLimits& limits,
                    const Given& given);

}  // namespace paceline::tuning
