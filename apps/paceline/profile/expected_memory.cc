#include "paceline/profile/expected_memory.h"

#include "planner/sizing/memory.h"

namespace paceline::cli {
namespace {

// What the formula leaves out: libraries, gradients of activations, activations that are no convolution's.
constexpr double kMostOverFormula = 2.5;
constexpr double kLibraries = 4e8;

}  // namespace

Result<ExpectedMemory> expected_memory(const model::ModelDescription& model, std::int64_t mini_batch) {
  ExpectedMemory memory;
  double expected = 12.0 * static_cast<double>(model.parameters());
  if (planner::no_formula_reason(model).empty()) {
    PACELINE_ASSIGN_OR_RETURN(const planner::MemoryNeed need, planner::memory_need(model, mini_batch, Bytes{0}));
    expected = -static_cast<double>(need.bound_bits) / 8;
    memory.formula = expected;
  }
  memory.most = kMostOverFormula * expected + kLibraries;
  return memory;
}

}  // namespace paceline::cli
