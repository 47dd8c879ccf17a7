// How good a set of ends is, comparable without rounding. Internal to the barrier algorithms.
//
// A sweep adds and removes ends one at a time; the sums are kept in twice the precision of a double, so that the sweep ranks sets as direct sums
// would, and equal sets of whole-numbered times compare equal.
#pragma once

#include "sync/end_times.h"
#include "sync/sync_options.h"

namespace paceline::sync {

// high + low, with |low| at most half a unit in the last place of high.
struct TwoDoubles {
  double high = 0;
  double low = 0;
};
TwoDoubles operator+(TwoDoubles a, double b);
TwoDoubles operator-(TwoDoubles a, TwoDoubles b);
TwoDoubles operator*(TwoDoubles a, TwoDoubles b);
bool operator<(TwoDoubles a, TwoDoubles b);

// numerator / denominator; smaller is better. denominator > 0.
struct Score {
  TwoDoubles numerator;
  TwoDoubles denominator;
};
bool better(const Score& a, const Score& b);

// Scores sets of one problem. The set is described by its size, its extremes and the sum of its scaled ends.
class Scorer {
 public:
  Scorer(const EndTimes& ends, Objective objective, double now);

  // What an end adds to a set's sum.
  double scaled(double end) const { return end * scale_; }
  Score score(double earliest, double latest, TwoDoubles sum) const;

 private:
  Objective objective_;
  double workers_;
  double scale_;  // a power of two that brings the times near 1, so that products neither overflow nor vanish
  double now_;    // scaled
};

}  // namespace paceline::sync
