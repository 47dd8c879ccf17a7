// The mini-batches that a job could run with: what was measured of each, what it needs, and its best algorithms (Eq 6). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/description.h"
#include "planner/questions/recommendation.h"
#include "planner/questions/step_time.h"
#include "planner/sizing/mini_batch.h"

namespace paceline::planner {

// What a step needs beside the workspaces of its convolutions.
struct Need {
  std::optional<double> formula, measured;  // bytes; at least one of them is known
  // A measured need counts more than a formula's.
  double bytes() const { return measured ? *measured : *formula; }
};

struct Candidate {
  const MeasuredStep* step = nullptr;
  std::vector<MeasuredLayer> layers;  // of the step, with the algorithms that are worth running
  Need need;
  double bound = 0;    // bytes left for workspaces; negative: the step does not fit
  MiniBatchPlan plan;  // its times are what step_time() makes of the choice
  double summed = 0;   // the iteration's time as the layers and the rest add up
  StepTime::By by = StepTime::By::kLayers;

  // What layer `layer` runs. Requires a feasible plan.
  const MeasuredAlgorithm& chosen(std::size_t layer) const;
  model::ConvolutionChoice choice() const;
  std::string told_by() const;  // how its time is known, for a sentence
};

struct Candidates {
  std::vector<Candidate> all;       // ascending in the mini-batch, never empty
  std::optional<std::size_t> best;  // the shortest data epoch; of equal ones the larger mini-batch; nothing: none fits
};

// The measured steps of `model`, those with question.mini_batches when it names any. kBadRequest, telling how to measure: nothing
// was measured, one of question.mini_batches was not, or nothing says how much memory a step needs. `measurements` must outlive the
// result.
Result<Candidates> candidates_for(const JobQuestion& question, const Measurements& measurements,
                                  const model::ModelDescription& model);

// About how long one core computes a step, and `paceline profile --convolutions` takes, from the network's arithmetic: right within
// a factor of two or three. Seconds.
double expected_step(const model::ModelDescription& model, std::int64_t mini_batch);
inline constexpr std::int64_t kUsualRounds = 5;
double seconds_to_measure(const model::ModelDescription& model, const std::vector<std::int64_t>& mini_batches, std::int64_t rounds);

// The command that measures them, and how long it takes where that is minutes.
std::string how_to_measure(const JobQuestion& question, const model::ModelDescription& model);

}  // namespace paceline::planner
