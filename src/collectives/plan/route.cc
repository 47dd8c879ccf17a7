#include "collectives/plan/route.h"

#include <algorithm>

#include "collectives/plan/chain_order.h"
#include "collectives/plan/plan.h"

namespace paceline::collectives {
namespace {

constexpr std::int64_t kPerRank = 64;  // elements of a part: so many that cutting a message into parts rounds nothing

bool has_pipeline(Operation operation) { return algorithms_for(operation).front() == Algorithm::kLinearPipeline; }

}  // namespace

double plan_seconds_per_byte(Operation operation, Algorithm algorithm, int root, const LinkRates& rates) {
  const int ranks = rates.ranks();
  const auto made = make_plan({operation, algorithm, ranks, kPerRank * ranks, 1, root});
  const CollectivePlan& plan = made.value();
  std::vector<double> clocks(static_cast<std::size_t>(ranks), 0.0);
  std::vector<double> over = clocks;  // with the round
  std::vector<std::size_t> next(clocks.size(), 0);
  for (std::int64_t round = 0; round < plan.rounds; ++round) {
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      const auto& steps = plan.ranks[rank].steps;
      for (; next[rank] < steps.size() && steps[next[rank]].round == round; ++next[rank]) {
        const Step& step = steps[next[rank]];
        if (step.kind != StepKind::kSend) continue;
        const auto peer = static_cast<std::size_t>(step.peer);
        const double end = std::max(clocks[rank], clocks[peer]) +
                           static_cast<double>(step.from.count()) * rates.link(static_cast<int>(rank), step.peer);
        over[rank] = std::max(over[rank], end);
        over[peer] = std::max(over[peer], end);
      }
    }
    clocks = over;
  }
  return *std::max_element(clocks.begin(), clocks.end()) / static_cast<double>(kPerRank * ranks);
}

Route route_of(Operation operation, int root, const LinkRates& rates) {
  Route route;
  route.why = rates.text();
  for (const Algorithm algorithm : algorithms_for(operation)) {
    if (!has_blocks(algorithm))
      route.prices.per_byte[static_cast<std::size_t>(algorithm)] = plan_seconds_per_byte(operation, algorithm, root, rates);
  }
  if (!has_pipeline(operation)) return route;
  route.order = best_order(operation, root, rates);
  const ChainSeconds chain = chain_seconds(operation, route.order, rates);
  route.prices.flow = chain.flow;
  route.prices.fill = chain.fill;
  if (route.order == own_order(operation, rates.ranks(), root)) route.order.clear();
  return route;
}

}  // namespace paceline::collectives
