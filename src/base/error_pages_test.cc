#include "base/error_pages.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/error_line.h"

namespace paceline {
namespace {

constexpr std::size_t kLongestCode = 15;  // paceline_error.code and its 0

TEST(ErrorPages, EachHasAWordThatFitsAndAllItsParagraphs) {
  std::set<std::string_view> codes;
  for (const ErrorPage& page : error_pages()) {
    EXPECT_TRUE(codes.insert(page.code).second) << page.code << " is there twice";
    EXPECT_LE(page.code.size(), kLongestCode) << page.code;
    EXPECT_EQ(page.code.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos) << page.code;
    EXPECT_FALSE(page.title.empty() || page.title.ends_with('.')) << page.code;
    for (const std::string_view text : {page.means, page.check, page.remedy}) {
      EXPECT_TRUE(text.ends_with('.')) << page.code << ": " << text;
      EXPECT_EQ(std::ranges::count(text, '`') % 2, 0) << page.code << ": " << text;
    }
  }
}

TEST(ErrorPages, EveryKindHasOneSoThatNoErrorIsWithoutAWayOut) {
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kIo); ++kind) {
    const char* const code = code_of(static_cast<ErrorKind>(kind));
    EXPECT_NE(error_page_of(code), nullptr) << code;
  }
  EXPECT_EQ(error_page_of("unheard-of"), nullptr);
  EXPECT_EQ(error_page_of(""), nullptr);
}

TEST(ErrorPages, AShownCodeIsFoundInWhateverCase) {
  for (const ErrorPage& page : error_pages()) EXPECT_EQ(code_shown_as(shown_code(page.code)), page.code);
  EXPECT_EQ(shown_code("port-in-use"), "PL-PORT-IN-USE");
  EXPECT_EQ(code_shown_as("pl-Port-in-use"), "port-in-use");
  for (const char* none : {"", "PL", "PL-", "port-in-use", "XPL-port"}) EXPECT_EQ(code_shown_as(none), "") << none;
}

TEST(ErrorLine, SaysSentenceAndWayOutAndIsReadBack) {
  const Status taken(ErrorKind::kIo, "cannot listen on [::1]:4100: Address already in use", {"port-in-use", ""});
  const std::string line = error_line(taken);
  EXPECT_EQ(line, "paceline: error: cannot listen on [::1]:4100: Address already in use [paceline help PL-PORT-IN-USE]");
  const auto said = read_error_line(line);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->sentence, taken.message());
  EXPECT_EQ(said->code, "port-in-use");
}

// A peer's code comes over the network, and may be of another release.
TEST(ErrorLine, ShowsTheKindOfACodeThatHasNoPage) {
  EXPECT_TRUE(error_line(error(ErrorKind::kPeerLost, "gone")).ends_with("gone [paceline help PL-PEER-LOST]"));
  const Status foreign(ErrorKind::kDeadline, "late", {"unheard-of", ""});
  EXPECT_TRUE(error_line(foreign).ends_with("late [paceline help PL-DEADLINE]"));
}

TEST(ErrorLine, OthersLinesAreNoneAndOneWithoutACodeHasNone) {
  EXPECT_FALSE(read_error_line("worker 0 is slow [paceline help PL-IO]"));
  for (const std::string text : {"it ended", "[paceline help PL-UNHEARD-OF]", "x [paceline help PL-IO] y", " [paceline help "}) {
    const auto said = read_error_line(std::string(kErrorMark) + text);
    ASSERT_TRUE(said) << text;
    EXPECT_EQ(said->sentence, text);
    EXPECT_EQ(said->code, "") << text;
  }
  EXPECT_EQ(without_code("paceline: error: gone [paceline help PL-IO]"), "paceline: error: gone");
  EXPECT_EQ(without_code("Killed"), "Killed");
}

}  // namespace
}  // namespace paceline
