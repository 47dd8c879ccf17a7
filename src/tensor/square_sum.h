// The sum of the squares of float32 elements, exactly: for clipping by the global norm.
//
// Exact, because the norm must be the same bits however the model is cut: over slices, in any order, on any number of servers and with
// any instruction set. A float's square is a 48-bit integer times a power of two, and integers are added without rounding; only
// `value()` rounds, once. Scalar code, about 1 ns per element.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace paceline::tensor {

// Copyable; one thread at a time.
class SquareSum {
 public:
  // The exact sum as an integer of 640 bits, least significant word first, in units of 2^-298, and whether it is one at all: what goes
  // over the wire to be merged. Room for 2^64 elements of any size; whatever does not fit (words that nobody summed) is not finite.
  struct Parts {
    std::array<std::uint64_t, 10> words{};
    bool finite = true;
    friend bool operator==(const Parts&, const Parts&) = default;
  };

  SquareSum() = default;
  explicit SquareSum(const Parts& parts) : parts_(parts) {}

  void add(std::span<const float> values);
  void add(const SquareSum& other);  // as if the values of `other` were added here

  const Parts& parts() const { return parts_; }

  // The float64 nearest to the exact sum (ties to even). NaN when any element was infinite or NaN.
  double value() const;

 private:
  Parts parts_;
};

// For one array.
double square_sum(std::span<const float> values);

// What every gradient is multiplied with so that the norm over all of them is at most `clip_norm` (above 0): 1 when it already is,
// else clip_norm / norm. `squares` is the sum over all gradients; with a NaN the factor is NaN. torch's clip_grad_norm_ divides by norm + 1e-6.
double clip_factor(double squares, double clip_norm);

}  // namespace paceline::tensor
