#include "tensor/sparse.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "tensor/reduce.h"
#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

// Sorts all elements; the fast one sorts none.
void take_twin(std::vector<float>& kept, std::vector<float>& sent, std::size_t count) {
  std::vector<std::size_t> order(kept.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto magnitude = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(kept[i]) & 0x7FFF'FFFF; };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return magnitude(a) > magnitude(b); });
  sent.assign(kept.size(), 0.0F);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < count) sent[order[i]] = kept[order[i]];
    if (i < count || kept[order[i]] == 0) kept[order[i]] = 0.0F;
  }
  for (float& value : sent) value = value == 0 ? 0.0F : value;  // no -0
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b,
                            [](float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); });
}

TEST(LargestElements, AreThoseThatSortingFinds) {
  LargestElements largest;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t n = seed % 40 == 0 ? 16'384 + random() % 9000 : random() % 300;
    std::vector<float> values(n);
    for (float& value : values) {
      // Many equal magnitudes in every third case.
      value = seed % 3 == 0 ? static_cast<float>(static_cast<int>(random() % 9) - 4) : testing::ugly_float(random);
    }
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n / 100, n / 3, n, n + 5}) {
      auto kept = values, expected_kept = values;
      std::vector<float> sent(n, 7.0F), expected_sent;
      largest.take(kept, sent, count);
      take_twin(expected_kept, expected_sent, count);
      ASSERT_TRUE(same_bits(sent, expected_sent)) << "seed " << seed << ", " << count << " of " << n;
      ASSERT_TRUE(same_bits(kept, expected_kept)) << "seed " << seed << ", " << count << " of " << n;
    }
  }
}

TEST(LargestElements, OfEqualOnesTheFirstGoAndZerosNever) {
  LargestElements largest;
  std::vector<float> kept = {1, -2, 2, -0.0F, 2, 0}, sent(6);
  largest.take(kept, sent, 2);
  EXPECT_TRUE(same_bits(sent, {0, -2, 2, 0, 0, 0}));
  EXPECT_TRUE(same_bits(kept, {1, 0, 0, 0, 2, 0}));
  largest.take(kept, sent, 6);
  EXPECT_TRUE(same_bits(sent, {1, 0, 0, 0, 2, 0}));
  EXPECT_TRUE(same_bits(kept, std::vector<float>(6, 0.0F)));
}

std::vector<std::byte> packed(const std::vector<float>& values) {
  const std::size_t count = count_sparse(values);
  std::vector<std::uint32_t> indices(count);
  std::vector<float> held(count);
  EXPECT_EQ(pack_sparse(values, 0, 0, indices, held), count);
  std::vector<std::byte> payload(count * kSparseBytes);
  std::ranges::copy(std::as_bytes(std::span(indices)), payload.begin());
  std::ranges::copy(std::as_bytes(std::span(held)), payload.begin() + static_cast<std::ptrdiff_t>(count * 4));
  return payload;
}

std::vector<float> mostly_zeros(std::size_t n, std::mt19937_64& random) {
  std::vector<float> values(n, 0.0F);
  for (float& value : values) {
    if (random() % 8 == 0) value = testing::ordinary_floats(1, random)[0];
  }
  if (n > 0) values[random() % n] = 3;
  return values;
}

TEST(Sparse, SumsHaveTheBitsOfDenseOnesWhateverPartIsAsked) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t n = 1 + random() % 200, workers = 1 + random() % 5;
    std::vector<std::vector<float>> dense;
    std::vector<std::vector<std::byte>> payloads;
    for (std::size_t k = 0; k < workers; ++k) {
      dense.push_back(mostly_zeros(n, random));
      payloads.push_back(packed(dense.back()));
    }
    const std::size_t first = random() % n, count = 1 + random() % (n - first);
    std::vector<SparseSource> sources;
    std::vector<std::span<const float>> plain;
    for (std::size_t k = 0; k < workers; ++k) {
      const auto part = std::span<const float>(dense[k]).subspan(first, count);
      plain.push_back(part);
      const auto view = parse_sparse(payloads[k], n);
      ASSERT_TRUE(view.has_value());
      sources.push_back(random() % 3 == 0 ? SparseSource{.dense = part} : part_of(*view, first, count));
    }
    std::vector<float> found(count), expected(count);
    const double scale = 1.0 / static_cast<double>(workers);
    sum_sparse(found, sources, scale);
    sum_in_rank_order(expected, plain, scale);
    ASSERT_TRUE(same_bits(found, expected)) << "seed " << seed;
  }
}

TEST(Sparse, PayloadsThatAreNoneAreRefused) {
  const std::vector<std::byte> good = packed({0, 1, 0, 2, 0, 3});
  EXPECT_TRUE(parse_sparse(good, 6).has_value());
  EXPECT_FALSE(parse_sparse(good, 5).has_value()) << "an index beyond the array";
  EXPECT_FALSE(parse_sparse({}, 6).has_value());
  for (std::size_t size = 1; size < good.size(); ++size) {
    if (size % kSparseBytes == 0) continue;
    EXPECT_FALSE(parse_sparse(std::span(good).first(size), 6).has_value()) << size;
  }
  for (const std::uint32_t second : {1U, 0U, 5U, 6U}) {  // of indices 1, second, 5
    auto changed = good;
    std::memcpy(changed.data() + 4, &second, 4);
    EXPECT_FALSE(parse_sparse(changed, 6).has_value()) << second;
  }
}

TEST(Sparse, FindsWhatIsNotFinite) {
  const std::vector<float> values = {0, 1, 0, INFINITY, 0, NAN};
  const std::vector<std::byte> payload = packed(values);
  const SparseSource source = part_of(*parse_sparse(payload, 6), 2, 4);
  EXPECT_EQ(first_non_finite(source), 1U);
  EXPECT_EQ(element_of(source, 1), INFINITY);
  EXPECT_EQ(first_non_finite(SparseSource{.dense = values}), 3U);
  EXPECT_EQ(first_non_finite(part_of(*parse_sparse(payload, 6), 0, 3)), std::nullopt);
}

}  // namespace
}  // namespace paceline::tensor
