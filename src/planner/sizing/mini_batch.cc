#include "planner/sizing/mini_batch.h"

#include <cmath>

#include "base/wrong.h"

namespace paceline::planner {
namespace {

// Sums of decimal fractions that are equal on paper differ in the last places.
constexpr double kSameTime = 1e-12;

}  // namespace

bool better(double time, std::int64_t mini_batch, double than_time, std::int64_t than_mini_batch) {
  const bool tie = std::abs(time - than_time) <= kSameTime * std::max(time, than_time);
  return tie ? mini_batch > than_mini_batch : time < than_time;
}

Result<MiniBatchChoice> choose_mini_batch(std::int64_t samples, const std::vector<MiniBatchCandidate>& candidates) {
  if (samples < 1) return error(ErrorKind::kBadRequest, "samples is {}; legal is 1 or more", samples);
  if (candidates.empty()) return error(ErrorKind::kBadRequest, "candidates is empty; give at least one");
  MiniBatchChoice choice;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const MiniBatchCandidate& candidate = candidates[c];
    if (candidate.mini_batch < 1) {
      return error(ErrorKind::kBadRequest, "candidates[{}]: mini_batch is {}; legal is 1 or more", c, candidate.mini_batch);
    }
    auto algorithms = choose_algorithms(candidate.layers, candidate.bound);
    if (!algorithms.ok()) return at(fmt::format("candidates[{}]", c), algorithms.status());
    const std::int64_t iterations = samples / candidate.mini_batch + (samples % candidate.mini_batch == 0 ? 0 : 1);
    const double time = static_cast<double>(iterations) * algorithms->time;
    choice.candidates.push_back({std::move(algorithms).value(), iterations, time});
    const MiniBatchPlan& added = choice.candidates.back();
    if (!added.algorithms.feasible) continue;
    if (!choice.best ||
        better(added.time, candidate.mini_batch, choice.candidates[*choice.best].time, candidates[*choice.best].mini_batch))
      choice.best = c;
  }
  return choice;
}

}  // namespace paceline::planner
