#include "tensor/codec.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace paceline::tensor {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What somebody received, at an address that is aligned as buffers of floats are.
class Received {
 public:
  explicit Received(std::size_t bytes) : memory_((bytes + sizeof(float) - 1) / sizeof(float)), bytes_(bytes) {}
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(memory_)).first(bytes_); }
  Encoded range(std::size_t elements, Range range) { return {bytes(), elements, range}; }
  void shrink(std::size_t bytes) { bytes_ = bytes; }

 private:
  std::vector<float> memory_;
  std::size_t bytes_;
};

Received in_full(const Codec& codec, const std::vector<float>& values) {
  Received to(codec.size(values.size()));
  codec.encode(values, to.bytes());
  return to;
}

struct Named {
  const char* name;
  std::shared_ptr<const Codec> codec;
};
std::vector<Named> all_codecs() {
  return {{"float32", dense_codec(DType::kFloat32)},
          {"float16", dense_codec(DType::kFloat16)},
          {"bfloat16", dense_codec(DType::kBFloat16)},
          {"float16 times 8", dense_codec(DType::kFloat16, 8)},
          {"sparse", sparse_codec()}};
}

// Of small multiples of an eighth, which all types hold exactly, some of them zero.
std::vector<float> exact_values(Random& random, std::size_t elements) {
  std::vector<float> values(elements);
  for (float& value : values) value = random.below(3) == 0 ? 0.0F : (static_cast<float>(random.below(64)) - 32.0F) / 8;
  return values;
}

TEST(Codec, WhatIsSentInFullComesBack) {
  Random random(1);
  for (const auto& [name, codec] : all_codecs()) {
    if (std::string_view(name) == "float16 times 8") continue;  // a gradient, which only sums divide again
    for (const std::size_t elements : {1, 2, 7, 64, 1000}) {
      const std::vector<float> values = exact_values(random, elements);
      Received received = in_full(*codec, values);
      EXPECT_TRUE(codec->fits(elements, received.bytes().size()) && codec->valid(received.bytes(), elements)) << name;
      std::vector<float> back(elements, -1);
      codec->decode(received.bytes(), back);
      EXPECT_EQ(back, values) << name;
    }
  }
}

TEST(Codec, SumsOfRunsAreThoseOfPlainLoops) {
  Random random(2);
  for (const auto& [name, codec] : all_codecs()) {
    for (int turn = 0; turn < 300; ++turn) {
      const std::size_t elements = 1 + random.below(200);
      Range range{.first = random.below(elements)};
      range.count = 1 + random.below(elements - range.first);
      std::vector<float> expected(range.count, 0);
      std::vector<Received> received;
      std::vector<Encoded> sources;
      const std::size_t workers = 1 + random.below(4);
      received.reserve(workers);
      for (std::size_t worker = 0; worker < workers; ++worker) {
        if (random.below(4) == 0) {
          sources.push_back({{}, elements, range});
          continue;
        }
        const std::vector<float> values = exact_values(random, elements);
        received.push_back(in_full(*codec, values));
        const Range all[] = {{0, elements}};
        Received packed(codec->size(elements));
        if (const auto bytes = codec->pack(values, all, packed.bytes())) {
          packed.shrink(*bytes);
          received.back() = packed;
        }
        ASSERT_TRUE(codec->fits(elements, received.back().bytes().size()) && codec->valid(received.back().bytes(), elements));
        sources.push_back(received.back().range(elements, range));
        for (std::size_t i = 0; i < range.count; ++i) expected[i] += values[range.first + i];
      }
      for (float& value : expected) value *= 0.5F;
      std::vector<float> sum(range.count, -1);
      codec->add_up(sum, sources, 0.5);
      EXPECT_EQ(sum, expected) << name << ", turn " << turn;
    }
  }
}

TEST(Codec, FindsTheFirstElementOfARunThatIsNotFinite) {
  for (const auto& [name, codec] : all_codecs()) {
    std::vector<float> values = {NAN, 1, 2, kInfinity, NAN, 3};
    Received received = in_full(*codec, values);
    EXPECT_THAT(codec->first_non_finite(received.range(6, {1, 4})), Optional(Codec::Element{2, kInfinity})) << name;
    EXPECT_EQ(codec->first_non_finite(received.range(6, {1, 2})), std::nullopt) << name;
    EXPECT_EQ(codec->first_non_finite({{}, 6, {0, 6}}), std::nullopt) << name;
  }
}

TEST(Codec, OnlyFloat32StandsAsItIsSent) {
  std::vector<const char*> raw, packs;
  for (const auto& [name, codec] : all_codecs()) {
    if (codec->raw()) raw.push_back(name);
    if (codec->packs()) packs.push_back(name);
  }
  EXPECT_THAT(raw, ElementsAre("float32", "sparse"));
  EXPECT_THAT(packs, ElementsAre("sparse"));
}

TEST(SparseCodec, PacksWhereThatIsSmallerAndOnlyWhatWasUsed) {
  const auto codec = sparse_codec();
  const std::vector<float> values = {9, 0, 0, 4, 0, 0, 0, 7};
  Received place(codec->size(8));
  const Range used[] = {{1, 3}, {6, 2}};
  ASSERT_THAT(codec->pack(values, used, place.bytes()), Optional(16U));
  place.shrink(16);
  std::vector<float> sum(8);
  codec->add_up(sum, std::vector{place.range(8, {0, 8})}, 1);
  EXPECT_THAT(sum, ElementsAre(0, 0, 0, 4, 0, 0, 0, 7));
  const Range all[] = {{0, 4}};
  EXPECT_EQ(codec->pack(std::vector<float>{1, 2, 0, 0}, all, place.bytes()), std::nullopt);
}

TEST(SparseCodec, NothingButZerosIsStillSomething) {
  const auto codec = sparse_codec();
  Received place(codec->size(100));
  const Range all[] = {{0, 100}};
  EXPECT_THAT(codec->pack(std::vector<float>(100), all, place.bytes()), Optional(8U));
}

TEST(SparseCodec, RefusesWhatNoArrayIsSentAs) {
  const auto codec = sparse_codec();
  for (const std::uint64_t bytes : {0, 4, 12, 44, 48}) EXPECT_FALSE(codec->fits(10, bytes)) << bytes;
  for (const std::uint64_t bytes : {8, 16, 32, 40}) EXPECT_TRUE(codec->fits(10, bytes)) << bytes;
  Received two(16);
  const std::span indices(reinterpret_cast<std::uint32_t*>(two.bytes().data()), 2);
  for (const auto& [first, second, valid] :
       {std::tuple(1U, 9U, true), std::tuple(1U, 10U, false), std::tuple(3U, 3U, false), std::tuple(4U, 2U, false)}) {
    indices[0] = first;
    indices[1] = second;
    EXPECT_EQ(codec->valid(two.bytes(), 10), valid) << first << ", " << second;
  }
}

}  // namespace
}  // namespace paceline::tensor
