#include "planner/sizing/algorithm_choice.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "planner/sizing/frontier.h"
#include "planner/sizing/solver.h"

namespace paceline::planner {
namespace {

Status check(const std::vector<std::vector<AlgorithmCost>>& layers, double bound) {
  if (!std::isfinite(bound) || bound < 0)
    return error(ErrorKind::kBadRequest, "bound is {}; legal are finite numbers from 0", bound);
  for (std::size_t k = 0; k < layers.size(); ++k) {
    if (layers[k].empty()) return error(ErrorKind::kBadRequest, "layer {} has no algorithms; give at least one", k + 1);
    for (std::size_t l = 0; l < layers[k].size(); ++l) {
      const AlgorithmCost& cost = layers[k][l];
      if (!std::isfinite(cost.time) || cost.time < 0) {
        return error(ErrorKind::kBadRequest, "layer {}, algorithm {}: time is {}; legal are finite numbers from 0", k + 1, l,
                     cost.time);
      }
      if (!std::isfinite(cost.memory) || cost.memory < 0) {
        return error(ErrorKind::kBadRequest, "layer {}, algorithm {}: memory is {}; legal are finite numbers from 0", k + 1, l,
                     cost.memory);
      }
    }
  }
  return {};
}

// The algorithms of a layer that no other beats in both time and memory: ascending in memory, descending in time.
std::vector<Option> undominated(const std::vector<AlgorithmCost>& layer) {
  std::vector<Option> sorted;
  for (std::size_t l = 0; l < layer.size(); ++l) sorted.push_back({static_cast<std::int64_t>(l), layer[l].time, layer[l].memory});
  std::stable_sort(sorted.begin(), sorted.end(), [](const Option& a, const Option& b) {
    return a.memory < b.memory || (a.memory == b.memory && a.time < b.time);
  });
  std::vector<Option> kept;
  for (const Option& option : sorted) {
    if (kept.empty() || option.time < kept.back().time) kept.push_back(option);
  }
  return kept;
}

AlgorithmChoice infeasible(const Options& options, long double least, double bound) {
  std::size_t largest = 0;
  for (std::size_t k = 1; k < options.size(); ++k) {
    if (options[k].front().memory > options[largest].front().memory) largest = k;
  }
  AlgorithmChoice none;
  none.reason =
      fmt::format("even the least-memory algorithms need {}, {} more than the bound of {}; layer {} needs most, at least {}",
                  static_cast<double>(least), static_cast<double>(least - bound), bound, largest + 1,
                  static_cast<double>(options[largest].front().memory));
  return none;
}

// picks[k] is an index into options[k].
AlgorithmChoice chosen(const Options& options, const std::vector<std::size_t>& picks) {
  AlgorithmChoice choice;
  choice.feasible = true;
  long double time = 0;
  long double memory = 0;
  for (std::size_t k = 0; k < options.size(); ++k) {
    const Option& option = options[k][picks[k]];
    choice.choice.push_back(option.algorithm);
    time += option.time;
    memory += option.memory;
  }
  choice.time = static_cast<double>(time);
  choice.memory = static_cast<double>(memory);
  return choice;
}

// Whole numbers below 2^64 are added and compared without rounding.
long double memory_of(const Options& options, const std::vector<std::size_t>& picks) {
  long double memory = 0;
  for (std::size_t k = 0; k < options.size(); ++k) memory += options[k][picks[k]].memory;
  return memory;
}

double time_of(const Options& options, const std::vector<std::size_t>& picks) { return chosen(options, picks).time; }

struct Solution {
  std::vector<std::size_t> picks;
  bool proven = false;
};

// Eq 6 as a program for CBC. Times count from each layer's fastest algorithm and memory from its smallest, both scaled so that the
// solver's absolute tolerances (1e-7) are far below what matters.
class Program {
 public:
  // slack: what the smallest choices leave of the bound; above 0.
  Program(const Solver& cbc, const Options& options, long double slack)
      : cbc_(cbc), options_(options), model_(cbc.new_model(), cbc.delete_model) {
    cbc_.set_log_level(model_.get(), 0);
    cbc_.set_maximum_nodes(model_.get(), kMostNodes);
    for (const auto& [name, value] :
         {std::pair{"ratioGap", "0"}, {"allowableGap", "0"}, {"increment", "0"}, {"integerTolerance", "1e-9"}}) {
      cbc_.set_parameter(model_.get(), name, value);
    }
    add_columns();
    add_one_per_layer();
    add_memory(slack);
  }

  // Excludes choices that take, in every layer, at least the memory of `picks`: those break the bound by less than the solver sees.
  void exclude_as_much_as(const std::vector<std::size_t>& picks) {
    std::vector<int> columns;
    for (std::size_t k = 0; k < options_.size(); ++k) {
      for (std::size_t l = picks[k]; l < options_[k].size(); ++l) columns.push_back(first_column_[k] + static_cast<int>(l));
    }
    add_row(columns, std::vector<double>(columns.size(), 1.0), 'L', static_cast<double>(options_.size()) - 1);
  }

  // The optimum, or what has been found after kMostNodes nodes (a count, not a time: the same question gets the same answer).
  std::optional<Solution> solve() const {
    // A solved model cannot be changed, so each attempt solves a copy.
    const Model copy(cbc_.clone(model_.get()), cbc_.delete_model);
    cbc_.solve(copy.get());
    const bool proven = cbc_.is_proven_optimal(copy.get()) != 0;
    const double* solution = proven ? cbc_.solution(copy.get()) : cbc_.best_solution(copy.get());
    if (solution == nullptr) return std::nullopt;
    std::vector<std::size_t> picks;
    for (std::size_t k = 0; k < options_.size(); ++k) {
      const double* layer = solution + first_column_[k];
      picks.push_back(static_cast<std::size_t>(std::max_element(layer, layer + options_[k].size()) - layer));
    }
    return Solution{std::move(picks), proven};
  }

 private:
  using Model = std::unique_ptr<CbcModel, void (*)(CbcModel*)>;
  static constexpr int kMostNodes = 200;
  static constexpr double kTimeScale = 1e5;
  static constexpr double kMemoryScale = 1e4;

  void add_columns() {
    double largest = 0;
    for (const auto& layer : options_) largest = std::max(largest, layer.front().time - layer.back().time);
    int column = 0;
    for (const auto& layer : options_) {
      first_column_.push_back(column);
      for (const Option& option : layer) {
        cbc_.add_column(model_.get(), "", 0, 1, (option.time - layer.back().time) / largest * kTimeScale, 1, 0, nullptr, nullptr);
        ++column;
      }
    }
  }

  void add_one_per_layer() {
    for (std::size_t k = 0; k < options_.size(); ++k) {
      std::vector<int> columns;
      for (std::size_t l = 0; l < options_[k].size(); ++l) columns.push_back(first_column_[k] + static_cast<int>(l));
      add_row(columns, std::vector<double>(columns.size(), 1.0), 'E', 1);
    }
  }

  void add_memory(long double slack) {
    std::vector<int> columns;
    std::vector<double> coefficients;
    for (std::size_t k = 0; k < options_.size(); ++k) {
      for (std::size_t l = 1; l < options_[k].size(); ++l) {
        columns.push_back(first_column_[k] + static_cast<int>(l));
        coefficients.push_back(static_cast<double>((options_[k][l].memory - options_[k].front().memory) / slack * kMemoryScale));
      }
    }
    add_row(columns, coefficients, 'L', kMemoryScale);
  }

  void add_row(const std::vector<int>& columns, const std::vector<double>& coefficients, char sense, double right) {
    cbc_.add_row(model_.get(), "", static_cast<int>(columns.size()), columns.data(), coefficients.data(), sense, right);
  }

  const Solver& cbc_;
  const Options& options_;
  Model model_;
  std::vector<int> first_column_;
};

// CBC's best choice that keeps the bound to the last digit; the smallest choices when it has none.
Solution solve_program(const Solver& cbc, const Options& options, long double bound, long double slack) {
  Program program(cbc, options, slack);
  for (;;) {
    auto solution = program.solve();
    if (!solution) return {std::vector<std::size_t>(options.size(), 0), false};
    if (memory_of(options, solution->picks) <= bound) return *std::move(solution);
    program.exclude_as_much_as(solution->picks);
  }
}

}  // namespace

Result<AlgorithmChoice> choose_algorithms(const std::vector<std::vector<AlgorithmCost>>& layers, double bound) {
  PACELINE_RETURN_IF_ERROR(check(layers, bound));
  Options options;
  for (const auto& layer : layers) options.push_back(undominated(layer));
  const long double least = memory_of(options, std::vector<std::size_t>(options.size(), 0));
  if (least > bound) return infeasible(options, least, bound);

  // What cannot fit beside the smallest choices of the other layers is out.
  const long double slack = bound - least;
  std::vector<std::size_t> fastest;
  for (auto& layer : options) {
    const long double smallest = layer.front().memory;
    std::erase_if(layer, [&](const Option& option) { return option.memory - smallest > slack; });
    fastest.push_back(layer.size() - 1);
  }
  if (memory_of(options, fastest) <= bound) return chosen(options, fastest);

  PACELINE_ASSIGN_OR_RETURN(const Solver* const cbc, solver());
  Solution solution = solve_program(*cbc, options, bound, slack);
  double gap = 0;
  if (!solution.proven) {
    const double incumbent = time_of(options, solution.picks);
    FrontierResult better = best_below(options, bound, incumbent);
    if (better.picks) solution.picks = *std::move(better.picks);
    if (!better.exact) gap = std::max(0.0, 1 - relaxed_time(options, bound) / incumbent);
  }
  AlgorithmChoice choice = chosen(options, solution.picks);
  choice.gap = gap;
  return choice;
}

}  // namespace paceline::planner
