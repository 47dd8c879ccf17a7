#include "lab/placeholders.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Placeholders, EveryHostGetsItsOwnWords) {
  EXPECT_EQ(*fill_in("--rank={host} --of={hosts}", 2, 4), "--rank=2 --of=4");
  EXPECT_EQ(*fill_in("{address} {address:0} {addresses}", 1, 3), "10.77.0.2 10.77.0.1 10.77.0.1,10.77.0.2,10.77.0.3");
}

TEST(Placeholders, OtherBracesStay) {
  for (const char* text : {"", "{", "}", "{}", "{x}", "{\"a\": {\"b\": 1}}", "${HOME}", "{host", "}{"})
    EXPECT_EQ(*fill_in(text, 0, 1), text);
  EXPECT_EQ(*fill_in("{{host}}", 3, 4), "{3}");
}

TEST(Placeholders, AHostThatIsNotThereIsRefused) {
  for (const char* text : {"{address:4}", "{address:-1}", "{address:}", "{address:1x}"})
    EXPECT_FALSE(fill_in(text, 0, 4).ok()) << text;
}

TEST(Placeholders, WhatIsNearlyOneIsRefused) {
  for (const char* text : {"{adress}", "{host:0}", "{adress:0}", "{Host}", "--rank {rank}", "{nodes}"}) {
    const auto filled = fill_in(text, 0, 4);
    ASSERT_FALSE(filled.ok()) << text;
    EXPECT_NE(filled.status().message().find("legal: {host}, {hosts}, {address}"), std::string::npos) << text;
  }
  EXPECT_NE(fill_in("{adress}", 0, 4).status().message().find("did you mean '{address}'?"), std::string::npos);
  for (const char* text : {"{print}", "${host}", "${rank}", "{1..3}", "{a,b}"}) EXPECT_TRUE(fill_in(text, 0, 4).ok()) << text;
}

}  // namespace
}  // namespace paceline::cli
