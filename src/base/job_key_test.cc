#include "base/job_key.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST(JobKey, ItHasThirtyTwoBytesThatAreNotAllZero) {
  EXPECT_TRUE(JobKey::from(std::vector<std::byte>(32, std::byte{1})).ok());
  for (const std::size_t wrong : {0U, 31U, 33U, 64U})
    EXPECT_EQ(JobKey::from(std::vector<std::byte>(wrong, std::byte{1})).status().kind(), ErrorKind::kBadRequest) << wrong;
  EXPECT_EQ(JobKey::from(std::vector<std::byte>(32)).status().kind(), ErrorKind::kBadRequest);
}

TEST(JobKey, TwoAreNeverTheSame) {
  const JobKey one = JobKey::draw(), other = JobKey::draw();
  EXPECT_FALSE(one == other);
  EXPECT_NE(one.name(), other.name());
  EXPECT_TRUE(one == JobKey::from(one.bytes()).value());
}

// RFC 5869, appendix A.3: HKDF-SHA256 with neither salt nor info, of another length of key; so it is checked by its parts.
TEST(JobKey, WhatIsDerivedIsHkdf) {
  const auto input = bytes_of("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
  const Secret extracted = prove(kNoSecret, {input});
  EXPECT_TRUE(std::ranges::equal(extracted, bytes_of("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04")));
  const std::byte counter{1};
  const Secret expanded = prove(extracted, {std::span(&counter, 1)});
  EXPECT_TRUE(std::ranges::equal(expanded, bytes_of("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")));
  const JobKey key = JobKey::from(std::vector<std::byte>(32, std::byte{7})).value();
  const Secret again = prove(kNoSecret, {key.bytes()});
  EXPECT_EQ(key.derive("x"), prove(again, {std::as_bytes(std::span("x", 1)), std::span(&counter, 1)}));
  EXPECT_NE(key.derive("x"), key.derive("y"));
}

// The flags of the mapping that holds it, as the kernel tells them: "dd" is for "do not dump".
TEST(JobKey, NoCoreHoldsIt) {
  const JobKey key = JobKey::draw();
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<std::uintptr_t>(key.bytes().data());
  bool mine = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) mine = begin <= address && address < end;
    if (mine && line.starts_with("VmFlags:")) {
      EXPECT_THAT(line, ::testing::HasSubstr(" dd"));
      return;
    }
  }
  FAIL() << "the kernel lists no mapping with flags there";
}

}  // namespace
}  // namespace paceline
