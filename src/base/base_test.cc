#include <cstring>
#include <string_view>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/median.h"
#include "base/text.h"
#include "base/utf8.h"

namespace paceline {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Crc32c, IsTheStandardsCheckValue) { EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u); }

TEST(Crc32c, ContinuesAcrossPieces) {
  EXPECT_EQ(crc32c(bytes_of("56789"), crc32c(bytes_of("1234"))), crc32c(bytes_of("123456789")));
  EXPECT_EQ(crc32c({}, 7u), 7u);
}

TEST(Hash128, DoesNotDependOnWhereThePiecesAreCut) {
  Hash128 whole, pieces;
  whole.update(bytes_of("forward order"));
  pieces.update(bytes_of("forward "));
  pieces.update(bytes_of("order"));
  EXPECT_EQ(whole.hex(), pieces.hex());
  EXPECT_EQ(Hash128().hex(), "99aa06d3014798d86001c324468d497f");  // xxh128sum of an empty file
}

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("512")->count, 512);
  EXPECT_EQ(parse_bytes("64KB")->count, 64'000);
  EXPECT_EQ(parse_bytes("4MiB")->count, 4'194'304);
  EXPECT_EQ(parse_bytes("1.5KiB")->count, 1536);
}

TEST(ParseBytes, RefusesWhatIsNotASize) {
  for (const char* text : {"", "-1", "4 lightyears", "MiB", "nan", "inf", "1e30", "0.5"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().kind(), ErrorKind::kBadRequest);
  }
}

TEST(ParseRate, TurnsBitsIntoBytes) {
  EXPECT_DOUBLE_EQ(parse_rate("1gbit")->value, 125e6);
  EXPECT_DOUBLE_EQ(parse_rate("125MB/s")->value, 125e6);
  EXPECT_FALSE(parse_rate("0gbit").ok());
  EXPECT_FALSE(parse_rate("5").ok());
}

TEST(ParseDuration, WantsAUnit) {
  EXPECT_EQ(*parse_duration("10ms"), std::chrono::milliseconds(10));
  EXPECT_EQ(*parse_duration("1.5s"), std::chrono::milliseconds(1500));
  EXPECT_FALSE(parse_duration("10").ok());
}

TEST(ToText, ChoosesAUnitAPersonReads) {
  EXPECT_EQ(to_text(Bytes{999}), "999 B");
  EXPECT_EQ(to_text(Bytes{4'200'000}), "4.2 MB");
  EXPECT_EQ(to_text(Duration(std::chrono::milliseconds(10'300))), "10.3 s");
}

TEST(Suggestion, NamesTheNearestOrNothing) {
  const std::vector<std::string> models = {"lenet", "resnet-20", "alexnet"};
  EXPECT_EQ(nearest("lennet", models), "lenet");
  EXPECT_EQ(nearest("bert", models), "");
  EXPECT_EQ(nearest("lenet", models), "lenet");
  EXPECT_EQ(nearest(std::string(100'000'000, 'a'), models), "");
  EXPECT_EQ(nearest("LENET", models), "lenet") << "another case is no mistake of the name";
  EXPECT_EQ(nearest("lneet", models), "lenet") << "two letters swapped are one mistake";
  EXPECT_EQ(suggestion("resnet20", models), " (did you mean 'resnet-20'?)");
}

TEST(Result, HandsOnTheFirstError) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return error(ErrorKind::kBadRequest, "{} is odd", n);
    return n / 2;
  };
  const auto quarter = [&](int n) -> Result<int> {
    PACELINE_ASSIGN_OR_RETURN(const int h, half(n));
    return half(h);
  };
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "3 is odd");
}

TEST(CheckDeathTest, SaysWhatWasViolated) { EXPECT_DEATH(PACELINE_CHECK(1 > 2, "window {}", 7), "window 7"); }

TEST(Median, IsTheMiddleOrBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
  EXPECT_EQ(lower_median({5}), 5);
  EXPECT_EQ(lower_median({9, 1, 2}), 2);
  EXPECT_EQ(lower_median({4, 1, 2, 9}), 2);
}

TEST(Utf8, IsTextWithoutOverlongFormsSurrogatesAndCutLetters) {
  for (const char* text : {"", "runs/a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text :
       {"\xff", "\x80", "a\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3("})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Status, SaysForProgramsWhatIsWrongWithWhat) {
  EXPECT_EQ(Status().code(), "");
  EXPECT_EQ(Status().subject(), "");
  const Status plain(ErrorKind::kPeerLost, "worker 2 is gone");
  EXPECT_EQ(plain.code(), "peer-lost");
  EXPECT_EQ(plain.subject(), "");
  const Status range(ErrorKind::kBadRequest, "--momentum is 2; legal: 0 up to below 1", {"illegal", "--momentum"});
  EXPECT_EQ(range.code(), "illegal");
  EXPECT_EQ(range.subject(), "--momentum");
  // Whoever is nearest to the mistake knows best.
  EXPECT_EQ(range.because({"contradiction", "--sync"}).code(), "illegal");
  EXPECT_EQ(range.because({"contradiction", "--sync"}).subject(), "--momentum");
  EXPECT_EQ(plain.because({"", "worker 2"}).subject(), "worker 2");
  EXPECT_EQ(plain.because({"", "worker 2"}).message(), plain.message());
  EXPECT_TRUE(Status().because({"illegal", "--momentum"}).ok());
}

}  // namespace
}  // namespace paceline
