// Which algorithm each layer runs when fast ones need more memory than there is (S.-X. Zou et al., Eq 6): one per layer, least
// total time, total memory within a bound. A multiple-choice knapsack, solved as an integer program by CBC; where CBC's search gets
// long, dynamic programming finishes it (frontier.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::planner {

// Measured, not guessed: time in any unit, memory in the unit of the bound. Finite, not negative.
struct AlgorithmCost {
  double time = 0;
  double memory = 0;
};

struct AlgorithmChoice {
  bool feasible = false;
  std::string reason;                // why not feasible: by how much, and the layer that needs most
  std::vector<std::int64_t> choice;  // per layer: 0-based
  double time = 0;
  double memory = 0;
  double gap = 0;  // 0: proven optimal; else time is at most this share above the optimum
};

// layers[k]: what each algorithm of layer k costs. Sums of whole-numbered memory are compared with the bound exactly. Of equal
// (time, memory) the first algorithm is taken. No layers: the empty choice. Prints nothing; 100 layers of 8 algorithms take less
// than a second. Optimal, but for questions where time falls in exact proportion to memory over very many sizes: those end with a
// small `gap`. kBadRequest: a layer without algorithms, a number out of range. kIo: not
// everything fits, and CBC is not there (solver.h).
Result<AlgorithmChoice> choose_algorithms(const std::vector<std::vector<AlgorithmCost>>& layers, double bound);

}  // namespace paceline::planner
