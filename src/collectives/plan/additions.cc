#include "collectives/plan/additions.h"

#include <numeric>

#include "base/check.h"
#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

// A number that remembers what was added up to make it.
struct Term {
  int rank = 0;
  Additions additions;

  Term& operator+=(const Term& other) {
    additions.insert(additions.end(), other.additions.begin(), other.additions.end());
    additions.push_back({rank, other.rank});
    return *this;
  }
};

}  // namespace

Additions in_rank_order(int ranks) {
  Additions additions;
  for (int rank = 1; rank < ranks; ++rank) additions.push_back({0, rank});
  return additions;
}

// An element for each part is enough.
std::vector<Additions> additions_by_part(PlanRequest request) {
  request.elements = request.ranks;
  request.block = 1;
  const auto plan = make_plan(request);
  PACELINE_CHECK(plan.ok(), "{}", plan.status().message());
  std::vector<std::vector<Term>> terms;
  for (int rank = 0; rank < request.ranks; ++rank) terms.emplace_back(static_cast<std::size_t>(request.ranks), Term{rank, {}});
  PlanPlayer<Term> player(*plan, std::move(terms), {});
  std::vector<int> ranks(static_cast<std::size_t>(request.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Status played = player.play(ranks);
  PACELINE_CHECK(played.ok(), "{}", played.message());
  std::vector<Additions> by_part;
  for (const Term& sum : player.buffer(request.root)) by_part.push_back(sum.additions);
  return by_part;
}

}  // namespace paceline::collectives
