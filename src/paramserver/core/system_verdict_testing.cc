// The verdicts of a stepped job, compared with plain loops.
#include "paramserver/core/system_testing.h"

namespace paceline::paramserver::testing {

bool System::verdict_checked(Worker& worker, Iteration iteration) {
  if (!job_.options.update.verdict || iteration == job_.options.first || worker.judged == iteration - 1) return true;
  const exchange::Verdict* const verdict = worker.verdicts.of(iteration - 1);
  const bool asked = worker.core.rank().value != 1 || iteration % 2 == 0;  // who does not ask is not held up
  if (asked && verdict == nullptr) return false;
  worker.judged = iteration - 1;
  if (!asked) return true;
  ++verdicts_checked;
  const exchange::Verdict expected = plain_verdict(iteration - 1);
  EXPECT_TRUE(same_bits(std::span(&verdict->square_sum, 1), std::span(&expected.square_sum, 1)))
      << "seed " << job_.seed << ": " << verdict->square_sum << " instead of " << expected.square_sum;
  EXPECT_EQ(verdict->non_finite, expected.non_finite) << "seed " << job_.seed;
  EXPECT_EQ(verdict->unused, expected.unused) << "seed " << job_.seed;
  return true;
}

exchange::Verdict System::plain_verdict(Iteration iteration) {
  exchange::Verdict verdict;
  verdict.unused.resize((job_.table.tensors.size() + 63) / 64);
  const auto offsets = job_.table.offsets();
  tensor::ExactSquareSum squares;
  for (std::uint32_t t = 0; t < job_.table.tensors.size(); ++t) {
    bool used = false;
    for (std::int32_t w = 0; w < job_.options.workers; ++w) used = used || !is_unused(w, iteration, t);
    if (!used && !job_.table.tensors[t].frozen && offsets[t] < offsets[t + 1]) verdict.unused[t / 64] |= std::uint64_t{1} << t % 64;
    if (!used) continue;
    std::int32_t broken = job_.options.workers;  // the lowest rank
    bool finite = true;
    for (std::int64_t i = offsets[t]; i < offsets[t + 1]; ++i) {
      const float mean = parameters_after(iteration)[static_cast<std::size_t>(i)];
      squares.add(std::span(&mean, 1));
      finite = finite && std::isfinite(mean);
      for (std::int32_t w = 0; w < job_.options.workers; ++w) {
        const bool counts = !is_unused(w, iteration, t);
        if (counts && !std::isfinite(gradient(w, iteration, i))) broken = std::min(broken, w);
      }
    }
    if (finite || verdict.non_finite) continue;
    verdict.non_finite = {.rank = broken < job_.options.workers ? Rank{broken} : exchange::Verdict::kNobody, .tensor = t};
  }
  verdict.square_sum = squares.value();
  return verdict;
}

}  // namespace paceline::paramserver::testing
