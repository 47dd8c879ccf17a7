// The sum of the squares of float32 numbers without any rounding, so that it is the same bits in whatever order and pieces it is
// taken: on one server or three, whole tensors or slices. The global norm of a gradient is made of it.
//
// A float32 is m * 2^e with an integer m < 2^24 and e >= -149, so each square is a multiple of 2^-298 below 2^256. The sum is kept
// as one integer of 640 bits in units of 2^-298; it cannot overflow below 2^80 elements. Infinities and NaNs are not summed but
// remembered. About 1 ns per element. A value; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::tensor {

inline constexpr std::size_t kSquareSumBytes =
    88;  // ten limbs, lowest first, then the flags (bit 0 infinity, bit 1 NaN); little-endian

class ExactSquareSum {
 public:
  // Adds the square of every element.
  void add(std::span<const float> values);
  void add(const ExactSquareSum& other);

  // The sum, rounded once to the nearest double (ties to even). NaN when there was a NaN, else infinite when there was an infinity.
  double value() const;
  bool finite() const { return !infinite_ && !nan_; }
  void mark_nan() { nan_ = true; }

  void write(std::span<std::byte, kSquareSumBytes> to) const;
  static ExactSquareSum read(std::span<const std::byte, kSquareSumBytes> from);  // unknown flags are ignored

  friend bool operator==(const ExactSquareSum&, const ExactSquareSum&) = default;

 private:
  static constexpr std::size_t kLimbs = 10;

  void add_shifted(std::uint64_t value, unsigned shift);

  std::array<std::uint64_t, kLimbs> limbs_{};
  bool infinite_ = false;
  bool nan_ = false;
};

// What every element of a gradient is multiplied by so that its norm is at most `limit` > 0, as torch's clip_grad_norm_ has it:
//   norm = sqrt(squares.value()), coefficient = limit / (norm + 1e-6), at most 1, all in float64; then rounded to float32.
// With an infinity it is 0, with a NaN it is NaN. 1 leaves the gradient as it is, bit by bit.
float clip_coefficient(const ExactSquareSum& squares, double limit);

}  // namespace paceline::tensor
