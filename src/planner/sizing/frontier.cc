#include "planner/sizing/frontier.h"

#include <algorithm>
#include <cmath>

namespace paceline::planner {
namespace {

// Better than the incumbent by more than the rounding of sums.
constexpr double kTie = 1e-13;

// A step along the lower convex hull of a layer's options: so much memory buys so much time.
struct Step {
  long double memory;
  double time;
  double rate() const { return time / static_cast<double>(memory); }
};

std::vector<Step> hull_steps(const std::vector<Option>& layer) {
  std::vector<const Option*> hull;
  for (const Option& option : layer) {
    const auto rate = [](const Option& from, const Option& to) {
      return (from.time - to.time) / static_cast<double>(to.memory - from.memory);
    };
    while (hull.size() >= 2 && rate(*hull[hull.size() - 2], *hull.back()) <= rate(*hull.back(), option)) hull.pop_back();
    hull.push_back(&option);
  }
  std::vector<Step> steps;
  for (std::size_t i = 1; i < hull.size(); ++i)
    steps.push_back({hull[i]->memory - hull[i - 1]->memory, hull[i - 1]->time - hull[i]->time});
  return steps;
}

// The relaxed problem over layers k.., for any memory: start at the smallest options, take the steps that buy most time first.
class Relaxation {
 public:
  explicit Relaxation(const Options& options) : suffixes_(options.size() + 1) {
    std::vector<Step> steps;  // of the suffix, best rate first
    for (std::size_t k = options.size(); k-- > 0;) {
      Suffix& suffix = suffixes_[k];
      suffix.memory = suffixes_[k + 1].memory + options[k].front().memory;
      suffix.time = suffixes_[k + 1].time + options[k].front().time;
      for (const Step& step : hull_steps(options[k])) steps.push_back(step);
      std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.rate() > b.rate(); });
      for (const Step& step : steps) {
        suffix.used.push_back((suffix.used.empty() ? 0 : suffix.used.back()) + step.memory);
        suffix.saved.push_back((suffix.saved.empty() ? 0 : suffix.saved.back()) + step.time);
      }
    }
  }

  // Memory that layers k.. need at least.
  long double least_memory(std::size_t k) const { return suffixes_[k].memory; }

  // Requires bound >= least_memory(k).
  double time(std::size_t k, long double bound) const {
    const Suffix& suffix = suffixes_[k];
    const long double slack = bound - suffix.memory;
    const auto after = std::upper_bound(suffix.used.begin(), suffix.used.end(), slack);
    const auto whole = static_cast<std::size_t>(after - suffix.used.begin());
    const double saved = whole == 0 ? 0 : suffix.saved[whole - 1];
    if (whole == suffix.used.size()) return suffix.time - saved;
    const long double begin = whole == 0 ? 0 : suffix.used[whole - 1];
    const auto share = static_cast<double>((slack - begin) / (suffix.used[whole] - begin));
    return suffix.time - saved - share * (suffix.saved[whole] - saved);
  }

 private:
  struct Suffix {
    long double memory = 0;
    double time = 0;
    std::vector<long double> used;  // by the first i + 1 steps
    std::vector<double> saved;
  };
  std::vector<Suffix> suffixes_;
};

struct State {
  double time = 0;
  long double memory = 0;
  std::uint32_t parent = 0;  // in the layer before
  std::uint32_t pick = 0;
};

// Leaves what no other state beats, ascending in memory.
void keep_undominated(std::vector<State>& states) {
  std::sort(states.begin(), states.end(),
            [](const State& a, const State& b) { return a.memory < b.memory || (a.memory == b.memory && a.time < b.time); });
  std::size_t kept = 0;
  for (const State& state : states) {
    if (kept == 0 || state.time < states[kept - 1].time) states[kept++] = state;
  }
  states.resize(kept);
}

}  // namespace

double relaxed_time(const Options& options, long double bound) { return Relaxation(options).time(0, bound); }

FrontierResult best_below(const Options& options, long double bound, double incumbent) {
  const Relaxation relaxation(options);
  const double worth = incumbent - kTie * std::abs(incumbent);
  FrontierResult result;
  std::vector<std::vector<State>> stages = {{State{}}};
  for (std::size_t k = 0; k < options.size(); ++k) {
    std::vector<State> grown;
    for (std::size_t s = 0; s < stages[k].size(); ++s) {
      for (std::size_t l = 0; l < options[k].size(); ++l) {
        const State state{stages[k][s].time + options[k][l].time, stages[k][s].memory + options[k][l].memory,
                          static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(l)};
        if (state.memory + relaxation.least_memory(k + 1) > bound) break;  // the next options need more
        if (state.time + relaxation.time(k + 1, bound - state.memory) < worth) grown.push_back(state);
      }
    }
    keep_undominated(grown);
    if (grown.size() > kMostStates) return {std::nullopt, false};
    stages.push_back(std::move(grown));
  }
  if (stages.back().empty()) return result;
  std::uint32_t at = static_cast<std::uint32_t>(stages.back().size() - 1);  // the most memory, hence the least time
  result.picks.emplace(options.size());
  for (std::size_t k = options.size(); k > 0; --k) {
    const State& state = stages[k][at];
    (*result.picks)[k - 1] = state.pick;
    at = state.parent;
  }
  return result;
}

}  // namespace paceline::planner
