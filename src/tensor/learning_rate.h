// Learning-rate schedules: a value, and a pure function of the iteration. Any thread.
//
// Shape of the rate at iteration t = 1, 2, ... with w warm-up iterations:
//   t <= w:  base * (t / w)                             (linear; iteration w runs at base)
//   t > w:   with u = t - 1 - w iterations since then and x = min(1, u / (total - w))
//     constant     base
//     step         base * factor ^ floor(u / every)
//     cosine       minimum + (base - minimum) * (1 + cos(pi * x)) / 2
//     polynomial   end + (base - end) * (1 - x) ^ power
// Without warm-up these are torch's StepLR, CosineAnnealingLR and PolynomialLR stepped once per iteration (epoch = t - 1), except
// that cosine stays at its minimum after `total` iterations instead of rising again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::tensor {

struct Schedule {
  enum class Kind { kConstant, kStep, kCosine, kPolynomial };

  Kind kind = Kind::kConstant;
  double base = 0.01;       // at least 0
  std::int64_t every = 1;   // step: iterations between two drops, at least 1
  double factor = 0.1;      // step: multiplies the rate at each drop, above 0
  std::int64_t total = 1;   // cosine, polynomial: iterations, warm-up included, until the last value is reached; more than warmup
  double minimum = 0;       // cosine: the last value, 0..base
  double power = 1;         // polynomial: above 0
  double end = 0;           // polynomial: the last value, 0..base
  std::int64_t warmup = 0;  // at least 0

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// The rate of `iteration`, from 1 (aborts below). `schedule` comes from parse_schedule or is as valid as one.
double learning_rate(const Schedule& schedule, Iteration iteration);

// What the user typed for --learning-rate:
//   0.1   constant:0.1   step:0.1,every=100,factor=0.5   cosine:0.1,total=1000,minimum=0
//   polynomial:0.1,total=1000,power=2,end=0.001
// each also with ,warmup=50. Keys in any order, each once; `every` and `total` must be given, the others have the defaults above.
// No spaces. kBadRequest names the part that is wrong, what is legal, and the nearest legal name.
Result<Schedule> parse_schedule(std::string_view text);

// Text that parse_schedule turns into an equal value; only the keys of its kind, warmup when there is one.
std::string to_text(const Schedule& schedule);

}  // namespace paceline::tensor
