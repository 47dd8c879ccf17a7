#include "tensor/exact_square_sum.h"

#include <algorithm>
#include <array>

#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

// The twin: a sum of float64 that keeps every rounding error as a further term (Shewchuk's expansions; squares of floats are exact
// in float64), rounded at the end by adding the terms from the largest down until the rest cannot matter.
class Expansion {
 public:
  void add(double x) {
    std::vector<double> kept;
    for (double term : terms_) {
      if (std::fabs(x) < std::fabs(term)) std::swap(x, term);
      const double sum = x + term;
      const double lost = term - (sum - x);
      if (lost != 0) kept.push_back(lost);
      x = sum;
    }
    kept.push_back(x);
    terms_ = kept;
  }
  // All squares are positive, terms do not overlap, so only the case of an exact tie needs the next term's sign.
  double value() const {
    if (terms_.empty()) return 0;
    std::size_t i = terms_.size() - 1;
    double high = terms_[i], low = 0;
    while (i > 0) {
      const double before = high, next = terms_[--i];
      high = before + next;
      low = next - (high - before);
      if (low != 0) break;
    }
    if (i > 0 && ((low < 0 && terms_[i - 1] < 0) || (low > 0 && terms_[i - 1] > 0))) {
      const double twice = low * 2, moved = high + twice;
      if (twice == moved - high) high = moved;
    }
    return high;
  }

 private:
  std::vector<double> terms_;
};

double twin(const std::vector<float>& values) {
  Expansion sum;
  for (const float value : values) sum.add(static_cast<double>(value) * static_cast<double>(value));
  return sum.value();
}

double square_sum(std::span<const float> values) {
  ExactSquareSum sum;
  sum.add(values);
  return sum.value();
}

TEST(ExactSquareSum, IsTheExactSumRoundedOnce) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(random() % 70);
    const int spread = static_cast<int>(random() % 120);
    for (float& value : values) {
      value = std::ldexp(std::normal_distribution<float>(0, 1)(random), static_cast<int>(random() % (2 * spread + 1)) - spread);
    }
    ASSERT_EQ(square_sum(values), twin(values)) << "seed " << seed;
  }
}

TEST(ExactSquareSum, KeepsTheSmallestBesideTheLargest) {
  const float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  EXPECT_EQ(square_sum(std::vector<float>{tiny}), std::ldexp(1.0, -298));
  EXPECT_EQ(square_sum(std::vector<float>{huge}), static_cast<double>(huge) * huge);
  // 2^48 + 1 units and a tie at the end: only the smallest element decides which way it is rounded.
  const float tie = std::ldexp(1.0f, -27), one = 1;  // tie^2 = 2^-54, half a unit below 1, a quarter above
  EXPECT_EQ(square_sum(std::vector<float>{one, tie, tie}), 1);
  EXPECT_EQ(square_sum(std::vector<float>{one, tie, tie, tiny}), std::nextafter(1.0, 2.0));
}

TEST(ExactSquareSum, IsTheSameForEveryCutAndOrder) {
  std::mt19937_64 random(3);
  std::vector<float> values = testing::ordinary_floats(200'001, random);
  const double whole = square_sum(values);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSquareSum left, right;
    for (std::size_t begin = 0; begin < values.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 90'000, values.size() - begin);
      (random() % 2 == 0 ? left : right).add(std::span(values).subspan(begin, n));
      begin += n;
    }
    std::array<std::byte, kSquareSumBytes> wire{};
    right.write(wire);
    const ExactSquareSum received = ExactSquareSum::read(wire);
    ASSERT_EQ(received, right);
    left.add(received);
    ASSERT_EQ(left.value(), whole);
  }
}

TEST(ExactSquareSum, HasRoomForManyOfTheLargest) {
  const std::vector<float> values(70'000, std::numeric_limits<float>::max());
  ExactSquareSum sum;
  sum.add(values);
  for (int i = 0; i < 40; ++i) sum.add(sum);
  const double square = static_cast<double>(values[0]) * values[0];
  EXPECT_EQ(sum.value(), std::ldexp(square * 70'000, 40));
}

TEST(ExactSquareSum, OfNothingIsZero) {
  EXPECT_EQ(square_sum({}), 0);
  EXPECT_EQ(square_sum(std::vector<float>(9, -0.0f)), 0);
}

TEST(ExactSquareSum, RemembersWhatIsNotFiniteWhereverItStandsAndNanWins) {
  for (std::size_t i = 0; i < 9; ++i) {
    std::vector<float> values(9, 1);
    for (const float infinity : {INFINITY, -INFINITY}) {
      values[i] = infinity;
      EXPECT_EQ(square_sum(values), INFINITY);
    }
    ExactSquareSum infinite, nan;
    infinite.add(values);
    values[i] = NAN;
    nan.add(values);
    EXPECT_TRUE(std::isnan(nan.value()));
    std::array<std::byte, kSquareSumBytes> wire{};
    nan.write(wire);
    infinite.add(ExactSquareSum::read(wire));
    EXPECT_TRUE(std::isnan(infinite.value()));
    EXPECT_FALSE(infinite.finite());
  }
}

float clipped(float gradient, double limit) {
  ExactSquareSum sum;
  sum.add(std::span(&gradient, 1));
  return clip_coefficient(sum, limit);
}

TEST(ClipCoefficient, IsTorchsUpToOne) {
  EXPECT_EQ(clipped(0, 1), 1);
  EXPECT_EQ(clipped(1, 2), 1);
  EXPECT_EQ(clipped(4, 2), static_cast<float>(2 / (4 + 1e-6)));
  EXPECT_EQ(clipped(2, 2), static_cast<float>(2 / (2 + 1e-6))) << "torch shrinks a norm that is just at the limit";
  EXPECT_EQ(clipped(INFINITY, 2), 0);
  EXPECT_TRUE(std::isnan(clipped(NAN, 2)));
}

}  // namespace
}  // namespace paceline::tensor
