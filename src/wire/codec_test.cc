#include "wire/codec.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

enum class Colour : std::uint8_t { kRed, kGreen };

TEST(Codec, NumbersAreLittleEndianAndComeBack) {
  Writer writer;
  writer.put(std::uint8_t{1});
  writer.put(std::int32_t{-2});
  writer.put(std::uint64_t{0x0102030405060708});
  writer.put(1.5F);
  writer.put(Colour::kGreen);
  const auto bytes = writer.take();
  EXPECT_EQ(bytes.size(), 1U + 4 + 8 + 4 + 1);
  EXPECT_EQ(bytes[5], std::byte{8});
  Reader reader(bytes);
  EXPECT_EQ(reader.get<std::uint8_t>(), 1);
  EXPECT_EQ(reader.get<std::int32_t>(), -2);
  EXPECT_EQ(reader.get<std::uint64_t>(), 0x0102030405060708U);
  EXPECT_EQ(reader.get<float>(), 1.5F);
  EXPECT_FALSE(reader.finished()) << "a byte is left";
  EXPECT_EQ(reader.get_enum(Colour::kGreen), Colour::kGreen);
  EXPECT_TRUE(reader.finished());
}

TEST(Codec, AfterTheFirstFailureEverythingIsZero) {
  const std::array<std::byte, 6> bytes = {std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}};
  Reader reader(bytes);
  EXPECT_EQ(reader.get<std::uint64_t>(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<std::uint8_t>(), 0) << "though a byte is there";
  EXPECT_EQ(reader.get_text(), "");
  EXPECT_FALSE(reader.finished());
}

TEST(Codec, AnUnknownEnumeratorFails) {
  const std::array<std::byte, 1> bytes = {std::byte{2}};
  Reader reader(bytes);
  EXPECT_EQ(reader.get_enum(Colour::kGreen), Colour::kRed);
  EXPECT_FALSE(reader.ok());
}

TEST(Codec, AFalseCountAsksForNoMemory) {
  for (const std::uint32_t count : {4U, 1'000U, std::numeric_limits<std::uint32_t>::max()}) {
    Writer writer;
    writer.put(count);
    for (int i = 0; i < 3; ++i) writer.put(std::uint64_t{1});
    const auto bytes = writer.take();
    Reader list(bytes);
    int asked = 0;
    const auto items = list.get_list<std::uint64_t>(8, [&](Reader& from) {
      ++asked;
      return from.get<std::uint64_t>();
    });
    EXPECT_EQ(items.capacity(), 0U);
    EXPECT_EQ(asked, 0);
    EXPECT_FALSE(list.ok());
  }
  Writer writer;
  writer.put(std::numeric_limits<std::uint32_t>::max());
  const auto bytes = writer.take();
  Reader text(bytes);
  EXPECT_EQ(text.get_text(), "");
  EXPECT_FALSE(text.ok());
}

TEST(Codec, AListThatBreaksOffEndsThere) {
  // Four items announced, which could just fit, but the first takes more than its least.
  Writer writer;
  writer.put(std::uint32_t{4});
  writer.put_text("0123456789");
  writer.put(std::uint16_t{0});
  const auto bytes = writer.take();
  Reader reader(bytes);
  int asked = 0;
  reader.get_list<std::string>(4, [&](Reader& from) {
    ++asked;
    return from.get_text();
  });
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace paceline::wire
