#include "base/shorten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Shortened, WhatFitsStaysAsItIs) {
  EXPECT_EQ(shortened("short", 64), "short");
  const std::string fits(64, 'x');
  EXPECT_EQ(shortened(fits, 64), fits);
}

TEST(Shortened, BeginningAndEndStay) {
  const std::string text = "rank 1: RuntimeError: " + std::string(5000, '.') + " CUDA out of memory";
  const std::string cut = shortened(text, 1023);
  EXPECT_EQ(cut.size(), 1023U);
  EXPECT_THAT(cut, StartsWith("rank 1: RuntimeError: ."));
  EXPECT_THAT(cut, HasSubstr(". ... ."));
  EXPECT_THAT(cut, EndsWith(". CUDA out of memory"));
}

TEST(Shortened, NoLetterIsCut) {
  for (std::size_t most = 64; most < 80; ++most) {
    std::string text;
    while (text.size() < 200) text += "\xe2\x82\xac";  // three bytes
    const std::string cut = shortened(text, most);
    EXPECT_LE(cut.size(), most);
    EXPECT_EQ((cut.size() - 5) % 3, 0U) << most;
    EXPECT_THAT(cut, EndsWith("\xe2\x82\xac"));
  }
}

}  // namespace
}  // namespace paceline
