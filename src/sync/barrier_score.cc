#include "sync/barrier_score.h"

#include <algorithm>
#include <cmath>

namespace paceline::sync {
namespace {

TwoDoubles exact_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

TwoDoubles operator-(TwoDoubles a, TwoDoubles b) {
  const TwoDoubles high = exact_sum(a.high, -b.high);
  const TwoDoubles low = exact_sum(a.low, -b.low);
  const TwoDoubles sum = exact_sum(high.high, high.low + low.high);
  return exact_sum(sum.high, sum.low + low.low);
}

TwoDoubles operator*(TwoDoubles a, TwoDoubles b) {
  const TwoDoubles product = exact_product(a.high, b.high);
  return exact_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

bool operator<(TwoDoubles a, TwoDoubles b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }

}  // namespace

bool better_exactly(const Score& a, const Score& b) { return a.numerator * b.denominator < b.numerator * a.denominator; }

Scorer::Scorer(const EndTimes& ends, Objective objective, double now)
    : objective_(objective), workers_(static_cast<double>(ends.workers())), scale_(1), now_(now) {
  double largest = std::abs(now);
  for (std::size_t p = 0; p < ends.workers(); ++p) {
    largest = std::max({largest, std::abs(ends.at(p, 1)), std::abs(ends.at(p, ends.count(p)))});
  }
  if (largest > 0) scale_ = std::ldexp(1.0, -std::clamp(std::ilogb(largest), -1000, 1000));
  now_ = now * scale_;
}

Score Scorer::share(double latest, TwoDoubles sum) const {
  const double scaled_latest = scaled(latest);
  const TwoDoubles available = exact_sum(scaled_latest, -now_);
  if (!(TwoDoubles{0, 0} < available)) return {{0, 0}, {1, 0}};  // the share of no time at all counts as 0
  return {exact_product(workers_, scaled_latest) - sum, available};
}

}  // namespace paceline::sync
