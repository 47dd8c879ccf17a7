// Sums over ranges of layers that do not depend on where they are taken: 3 * 0.1 is the same number at the front and at the back.
// Differences of prefix sums in plain doubles are not (0.3 - 0.2 < 0.1), and would turn ties into accidents.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "scheduling/batching.h"

namespace paceline::scheduling {

// An unevaluated sum of two doubles, |low| at most half a unit in the last place of high: 106 bits. Exact for sums of doubles whose
// magnitudes differ by less than about 2^50.
struct Exact {
  double high = 0;
  double low = 0;

  static Exact of(double value) { return {value, 0}; }
  double rounded() const { return high; }

  friend Exact operator+(Exact a, Exact b) {
    const Exact s = two_sum(a.high, b.high);
    const Exact t = two_sum(a.low, b.low);
    const Exact u = quick_two_sum(s.high, s.low + t.high);
    return quick_two_sum(u.high, u.low + t.low);
  }
  friend Exact operator-(Exact a, Exact b) { return a + Exact{-b.high, -b.low}; }
  friend bool operator==(Exact a, Exact b) { return a.high == b.high && a.low == b.low; }
  friend bool operator<(Exact a, Exact b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }
  friend bool operator>(Exact a, Exact b) { return b < a; }
  friend bool operator<=(Exact a, Exact b) { return !(b < a); }
  friend bool operator>=(Exact a, Exact b) { return !(a < b); }

 private:
  static Exact two_sum(double a, double b) {
    const double sum = a + b;
    const double part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
  }
  static Exact quick_two_sum(double a, double b) {  // |a| >= |b|
    const double sum = a + b;
    return {sum, b - (sum - a)};
  }
};

// A problem prepared for questions about ranges. Layers `first..last`, 1-based; empty when first > last.
class BatchingSums {
 public:
  explicit BatchingSums(const BatchingProblem& problem) : start_up_(Exact::of(problem.start_up)), starts_(1) {
    transfer_ = prefix(problem.transfer);
    compute_ = prefix(problem.compute);
    for (std::size_t k = 0; k < problem.transfer.size(); ++k) starts_.push_back(starts_.back() + start_up_);
  }

  int layers() const { return static_cast<int>(transfer_.size()) - 1; }
  Exact start_up() const { return start_up_; }
  Exact starts(int batches) const { return starts_[static_cast<std::size_t>(batches)]; }  // N * Ts
  Exact transfer(int first, int last) const { return range(transfer_, first, last); }
  Exact compute(int first, int last) const { return range(compute_, first, last); }

 private:
  static std::vector<Exact> prefix(const std::vector<double>& values) {
    std::vector<Exact> sums(1);
    for (const double value : values) sums.push_back(sums.back() + Exact::of(value));
    return sums;
  }
  static Exact range(const std::vector<Exact>& sums, int first, int last) {
    return first > last ? Exact{} : sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first - 1)];
  }

  Exact start_up_;
  std::vector<Exact> starts_;
  std::vector<Exact> transfer_;
  std::vector<Exact> compute_;
};

}  // namespace paceline::scheduling
