#include "sync/unit_updates.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace paceline::sync {

UnitUpdates::UnitUpdates(std::int32_t units, Iteration summed_until, GradientScale scale)
    : summed_until_(summed_until), scale_(scale), waiting_(static_cast<std::size_t>(units)) {}

void UnitUpdates::on_joined(Rank worker, Iteration first) {
  workers_[worker] = {first, std::vector<Iteration>(waiting_.size(), first - 1)};
}

std::vector<Update> UnitUpdates::on_left(Rank worker) {
  workers_.erase(worker);
  std::vector<Update> updates;
  for (std::size_t u = 0; u < waiting_.size(); ++u) {
    const auto unit = static_cast<std::int32_t>(u);
    auto& waiting = waiting_[u];
    while (!waiting.empty() && complete(unit, waiting.begin()->first)) {
      auto [iteration, contributors] = std::move(*waiting.begin());
      waiting.erase(waiting.begin());
      updates.push_back(summed(unit, iteration, std::move(contributors)));
    }
  }
  std::stable_sort(updates.begin(), updates.end(),
                   [](const Update& a, const Update& b) { return std::tie(a.iteration, a.unit) < std::tie(b.iteration, b.unit); });
  return updates;
}

Result<std::vector<Update>> UnitUpdates::on_push(Rank worker, std::int32_t unit, Iteration iteration) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {} of iteration {} but does not take part", worker.value, unit,
                 iteration);
  }
  if (unit < 0 || unit >= static_cast<std::int32_t>(waiting_.size())) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {}; this server has units 0..{}", worker.value, unit,
                 static_cast<std::int64_t>(waiting_.size()) - 1);
  }
  Iteration& last = found->second.pushed[static_cast<std::size_t>(unit)];
  if (iteration != last + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {} of iteration {}; expected iteration {}", worker.value, unit,
                 iteration, last + 1);
  }
  last = iteration;
  if (iteration > summed_until_) {
    const double scale = scale_ == GradientScale::kMean ? 1.0 / static_cast<double>(workers_.size()) : 1.0;
    return std::vector<Update>{{unit, iteration, {worker}, scale}};
  }
  newest_summed_ = std::max(newest_summed_, iteration);
  auto& waiting = waiting_[static_cast<std::size_t>(unit)];
  waiting[iteration].push_back(worker);
  if (!complete(unit, iteration)) return std::vector<Update>{};
  auto contributors = std::move(waiting[iteration]);
  waiting.erase(iteration);
  return std::vector<Update>{summed(unit, iteration, std::move(contributors))};
}

// A worker pushes a unit's iterations in order, so an iteration is complete only when the earlier ones are.
bool UnitUpdates::complete(std::int32_t unit, Iteration iteration) const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.first > iteration || entry.second.pushed[static_cast<std::size_t>(unit)] >= iteration;
  });
}

Update UnitUpdates::summed(std::int32_t unit, Iteration iteration, std::vector<Rank> contributors) const {
  std::sort(contributors.begin(), contributors.end());
  const double scale = scale_ == GradientScale::kFull ? 1.0 : 1.0 / static_cast<double>(contributors.size());
  return {unit, iteration, std::move(contributors), scale};
}

}  // namespace paceline::sync
