#include "collectives/training/gradient_additions.h"

#include <algorithm>

#include "collectives/exec/operation.h"

namespace paceline::collectives {

GradientAdditions::GradientAdditions(const std::optional<TrainingOptions>& training, std::int32_t workers, bool verdict)
    : flags_(workers, verdict) {
  if (!training || rules_of(*training, workers).order == SumOrder::kRank) {
    orders_.push_back(in_rank_order(workers));
    return;
  }
  // Another order than the ranks' comes only with an algorithm that was asked for and that all units are added by.
  const Call call = call_of(*training, workers, TrainingStep::kReduce, 0);
  const bool reduces = call.kind == CollectiveKind::kReduce;
  for (Additions& additions : additions_by_part({.operation = reduces ? Operation::kReduce : Operation::kAllreduce,
                              .algorithm = call.algorithm.value(),
                              .ranks = workers,
                              .root = reduces ? call.root : 0})) {
    const auto known = std::ranges::find(orders_, additions);
    of_part_.push_back(static_cast<std::size_t>(known - orders_.begin()));
    if (known == orders_.end()) orders_.push_back(std::move(additions));
  }
}

std::vector<GradientAdditions::Run> GradientAdditions::runs_of(const scheduling::Unit& unit) const {
  if (of_part_.empty()) return {{unit.elements, 0}};
  std::vector<Run> runs;
  for (std::size_t part = 0; part < of_part_.size(); ++part) {
    const Range range = part_of(flags_.staged_elements(unit), static_cast<int>(of_part_.size()), static_cast<int>(part));
    const std::int64_t end = std::min(range.first + range.count, unit.elements);
    if (range.first < end) runs.push_back({end - range.first, of_part_[part]});
  }
  return runs;
}

}  // namespace paceline::collectives
