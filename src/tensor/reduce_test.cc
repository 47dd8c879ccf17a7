#include "tensor/reduce.h"

#include <algorithm>

#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

using testing::all_same;
using testing::on_every_target;

// The twins: one operation on one element, as the header states it.
float computed(float x) { return x; }
double computed(double x) { return x; }
float computed(Float16 x) { return to_float(x); }
float computed(BFloat16 x) { return to_float(x); }

template <typename T, typename C>
T rounded(C value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

template <typename T>
T twin(Reduction reduction, T a, T b) {
  const auto x = computed(a), y = computed(b);
  if (reduction == Reduction::kSum) return rounded<T>(x + y);
  if (std::isnan(x)) return a;
  if (std::isnan(y)) return b;
  return reduction == Reduction::kMax ? (y > x ? b : a) : (y < x ? b : a);
}
std::int32_t twin(Reduction reduction, std::int32_t a, std::int32_t b) {
  if (reduction == Reduction::kSum) return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  return reduction == Reduction::kMax ? std::max(a, b) : std::min(a, b);
}

template <typename T>
T scaled_twin(T value, double factor) {
  const auto x = computed(value);
  return rounded<T>(x * static_cast<std::remove_const_t<decltype(x)>>(factor));
}
std::int32_t scaled_twin(std::int32_t value, double factor) {
  const double product = std::nearbyint(value * factor);
  return product >= 2147483647.0 ? 2147483647 : product <= -2147483648.0 ? -2147483647 - 1 : static_cast<std::int32_t>(product);
}

template <typename T>
T ugly(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<std::int32_t>(random() >> (random() % 8 == 0 ? 32 : 48));
  } else if constexpr (std::is_same_v<T, double>) {
    return random() % 16 == 0 ? std::bit_cast<double>(random()) : static_cast<double>(testing::ugly_float(random)) * 1.1;
  } else {
    return rounded<T>(testing::ugly_float(random));
  }
}
template <typename T>
std::vector<T> uglies(std::size_t n, std::mt19937_64& random) {
  std::vector<T> values(n);
  for (T& value : values) value = ugly<T>(random);
  return values;
}

constexpr std::size_t kRoom = 96;  // offsets 0..15 and lengths 0..67 leave elements on both sides that must not change

template <typename T>
class Reduce : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double, std::int32_t, Float16, BFloat16>;
TYPED_TEST_SUITE(Reduce, ElementTypes);

TYPED_TEST(Reduce, CombinesEachElementAtEveryLengthAndOffset) {
  std::mt19937_64 random(5);
  const auto a = uglies<TypeParam>(kRoom, random), b = uglies<TypeParam>(kRoom, random);
  on_every_target([&] {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t n = 0; n <= 67; ++n) {
          auto found = a, expected = a;
          for (std::size_t i = 0; i < n; ++i) expected[offset + i] = twin(reduction, a[offset + i], b[i + 5]);
          reduce_into(reduction, std::span(found).subspan(offset, n), std::span(b).subspan(5, n));
          ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset << ", reduction " << static_cast<int>(reduction);
        }
      }
    }
  });
}

TYPED_TEST(Reduce, ScalesEachElementAtEveryLengthAndOffset) {
  std::mt19937_64 random(6);
  const auto a = uglies<TypeParam>(kRoom, random);
  on_every_target([&] {
    for (const double factor : {1.0 / 3, -2.0, 0.0, 1e30}) {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t n = 0; n <= 67; ++n) {
          auto found = a, expected = a;
          for (std::size_t i = 0; i < n; ++i) expected[offset + i] = scaled_twin(a[offset + i], factor);
          scale(std::span(found).subspan(offset, n), factor);
          ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset << " times " << factor;
        }
      }
    }
  });
}

template <typename T>
std::vector<T> rank_order_twin(const std::vector<std::vector<T>>& sources, double factor) {
  std::vector<T> sum = sources[0];
  for (std::size_t k = 1; k < sources.size(); ++k) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = twin(Reduction::kSum, sum[i], sources[k][i]);
  }
  for (T& value : sum) value = scaled_twin(value, factor);
  return sum;
}

TYPED_TEST(Reduce, SumsInRankOrderAtEveryLengthAndOffset) {
  std::mt19937_64 random(8);
  for (const std::size_t workers : {1, 2, 3, 4, 7}) {
    std::vector<std::vector<TypeParam>> sources;
    for (std::size_t k = 0; k < workers; ++k) sources.push_back(uglies<TypeParam>(kRoom, random));
    const double factor = 1.0 / static_cast<double>(workers);
    const auto sum = rank_order_twin(sources, factor);
    const auto untouched = uglies<TypeParam>(kRoom, random);
    on_every_target([&] {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t n = 0; n <= 67; ++n) {
          std::vector<ConstTensorView> views;
          for (const auto& source : sources) views.emplace_back(std::span(source).subspan(offset, n));
          auto found = untouched, expected = untouched;
          std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(offset), n, expected.begin() + 3);
          sum_in_rank_order(std::span(found).subspan(3, n), views, factor);
          ASSERT_TRUE(all_same(found, expected)) << n << " at " << offset << " of " << workers;
        }
      }
    });
  }
}

TYPED_TEST(Reduce, SumsRandomCasesAsAddAndScaleWould) {
  on_every_target([] {
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      std::mt19937_64 random(seed);
      const std::size_t n = random() % 200;
      std::vector<std::vector<TypeParam>> sources;
      std::vector<ConstTensorView> views;
      const std::size_t workers = 1 + (random() % 20 == 0 ? random() % 100 : random() % 9);
      for (std::size_t k = 0; k < workers; ++k) sources.push_back(uglies<TypeParam>(n, random));
      for (const auto& source : sources) views.emplace_back(std::span(source));
      const double factor = random() % 3 == 0 ? 1.0 : std::normal_distribution<double>(0, 1)(random);
      std::vector<TypeParam> stepwise = sources[0], found(n);
      for (std::size_t k = 1; k < workers; ++k) add_into(std::span(stepwise), views[k]);
      scale(std::span(stepwise), factor);
      sum_in_rank_order(std::span(found), views, factor);
      ASSERT_TRUE(all_same(found, stepwise)) << "seed " << seed;
      ASSERT_TRUE(all_same(found, rank_order_twin(sources, factor))) << "seed " << seed;
      // In place: any one source may be the destination.
      auto& target = sources[random() % workers];
      sum_in_rank_order(std::span(target), views, factor);
      ASSERT_TRUE(all_same(target, stepwise)) << "in place, seed " << seed;
    }
  });
}

TEST(SumInRankOrder, DiffersFromAnyOtherOrder) {
  const std::vector<float> big = {1e8f}, one = {1}, negative = {-1e8f};
  std::vector<float> sum(1);
  const std::vector<std::span<const float>> ranks = {big, one, negative}, others = {big, negative, one};
  sum_in_rank_order(sum, ranks, 1);
  EXPECT_EQ(sum[0], 0);
  sum_in_rank_order(sum, others, 1);
  EXPECT_EQ(sum[0], 1);
}

TEST(SumInRankOrder, RoundsHalvesAfterEachAddition) {
  // 2048 + 1 is a tie in float16 and goes to 2048 each time; a float32 sum would reach 2052.
  const std::vector<Float16> large = {to_float16(2048)}, one = {to_float16(1)};
  const std::vector<ConstTensorView> views = {std::span(large), std::span(one), std::span(one), std::span(one), std::span(one)};
  std::vector<Float16> sum(1);
  sum_in_rank_order(std::span(sum), views, 0.5);
  EXPECT_EQ(to_float(sum[0]), 1024);
}

TEST(SumInRankOrder, GivesTheSameForSpansOfFloats) {
  std::mt19937_64 random(9);
  std::vector<std::vector<float>> sources;
  std::vector<std::span<const float>> spans;
  for (int k = 0; k < 5; ++k) sources.push_back(testing::ordinary_floats(1000, random));
  for (const auto& source : sources) spans.emplace_back(source);
  std::vector<float> sum(1000);
  sum_in_rank_order(sum, spans, 0.2);
  EXPECT_TRUE(all_same(sum, rank_order_twin(sources, 0.2)));
}

TEST(ReduceDeathTest, AbortsOnArraysThatDoNotMatch) {
  std::vector<float> three(3), two(2);
  std::vector<std::int32_t> ints(3);
  EXPECT_DEATH(add_into(std::span(three), std::span(two)), "3 elements of float32 combined with 2 of float32");
  EXPECT_DEATH(add_into(std::span(three), std::span(ints)), "combined with 3 of int32");
  EXPECT_DEATH(sum_in_rank_order(std::span(three), std::span<const ConstTensorView>(), 1), "no sources");
  const std::vector<std::span<const float>> spans = {three, two};
  EXPECT_DEATH(sum_in_rank_order(std::span<float>(three), spans, 1), "source 1 has 2 elements, the sum 3");
  EXPECT_DEATH(scale(std::span(ints), NAN), "scaled by nan");
}

template <typename T>
class Finite : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(Finite, FloatTypes);

TYPED_TEST(Finite, FindsTheFirstBadElementWhereverItStands) {
  on_every_target([] {
    for (const std::size_t n : {1, 15, 67, 4095, 4096, 4097, 9000}) {
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<TypeParam> values(n, rounded<TypeParam>(3.0f));
        ASSERT_TRUE(all_finite(std::span(values)));
        for (std::size_t i = 0; i < n; i += 1 + n / 23) {
          const TypeParam before = values[i], last = values[n - 1];
          values[n - 1] = rounded<TypeParam>(NAN);
          values[i] = rounded<TypeParam>(bad);
          ASSERT_FALSE(all_finite(std::span(values)));
          ASSERT_EQ(first_non_finite(std::span(values)), i) << n;
          values[n - 1] = last;
          values[i] = before;
        }
      }
    }
  });
}

TYPED_TEST(Finite, IsNotFooledByTheLargestValuesOrByNone) {
  on_every_target([] {
    EXPECT_TRUE(all_finite(std::span<const TypeParam>()));
    TypeParam largest = rounded<TypeParam>(std::numeric_limits<float>::max());
    if constexpr (std::is_same_v<TypeParam, double>) largest = std::numeric_limits<double>::max();
    if constexpr (sizeof(TypeParam) == 2)
      largest.bits = static_cast<std::uint16_t>(std::is_same_v<TypeParam, Float16> ? 0x7BFF : 0x7F7F);
    EXPECT_TRUE(all_finite(std::span<const TypeParam>(std::vector<TypeParam>(5000, largest))));
  });
}

TYPED_TEST(Finite, AgreesWithAScalarLoopOnRandomBits) {
  on_every_target([] {
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      std::mt19937_64 random(seed);
      std::vector<TypeParam> values = uglies<TypeParam>(random() % 100, random);
      const auto bad = std::find_if(values.begin(), values.end(), [](TypeParam x) { return !std::isfinite(computed(x)); });
      const auto found = first_non_finite(std::span(values));
      ASSERT_EQ(found.value_or(values.size()), static_cast<std::size_t>(bad - values.begin())) << "seed " << seed;
    }
  });
}

TEST(Finite, IsEveryInteger) {
  EXPECT_TRUE(all_finite(std::span<const std::int32_t>(std::vector<std::int32_t>{-1, 0x7F800000, 0x7FC00000})));
}

}  // namespace
}  // namespace paceline::tensor
