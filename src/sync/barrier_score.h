// How good a set of ends is, comparable without rounding. Internal to the barrier algorithms.
//
// A sweep adds and removes ends one at a time; the sums are kept in twice the precision of a double, so that the sweep ranks sets
// as direct sums would, and equal sets of whole-numbered times compare equal.
#pragma once

#include "sync/end_times.h"
#include "sync/sync_options.h"

namespace paceline::sync {

// high + low, with |low| at most half a unit in the last place of high.
struct TwoDoubles {
  double high = 0;
  double low = 0;
};

// a + b exactly, when neither overflows.
inline TwoDoubles exact_sum(double a, double b) {
  const double sum = a + b;
  const double rest = sum - a;
  return {sum, (a - (sum - rest)) + (b - rest)};
}

inline TwoDoubles operator+(TwoDoubles a, double b) {
  const TwoDoubles sum = exact_sum(a.high, b);
  return exact_sum(sum.high, sum.low + a.low);
}

// numerator / denominator; smaller is better. denominator > 0.
struct Score {
  TwoDoubles numerator;
  TwoDoubles denominator;
};
// Is a better than b? To the last of the digits.
bool better_exactly(const Score& a, const Score& b);
inline bool better(const Score& a, const Score& b) {
  const double left = a.numerator.high * b.denominator.high;
  const double right = b.numerator.high * a.denominator.high;
  if (left > right * (1 + 1e-12)) return false;  // clearly not, as nearly always; both are at least 0
  return better_exactly(a, b);
}

// Scores sets of one problem. The set is described by its size, its extremes and the sum of its scaled ends.
class Scorer {
 public:
  Scorer(const EndTimes& ends, Objective objective, double now);

  // What an end adds to a set's sum.
  double scaled(double end) const { return end * scale_; }
  Score score(double earliest, double latest, TwoDoubles sum) const {
    return objective_ == Objective::kSpan ? Score{{latest - earliest, 0}, {1, 0}} : share(latest, sum);
  }

 private:
  Score share(double latest, TwoDoubles sum) const;

  Objective objective_;
  double workers_;
  double scale_;  // a power of two that brings the times near 1, so that products neither overflow nor vanish
  double now_;    // scaled
};

}  // namespace paceline::sync
