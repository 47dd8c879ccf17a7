#include "scheduling/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Window, IsReadAsTypedAndWrittenAsRead) {
  EXPECT_EQ(*parse_window("auto"), WindowRule{});
  EXPECT_EQ(parse_window("auto:4ms")->link_time, 4ms);
  EXPECT_EQ(*parse_window("128KiB"), fixed_window({131'072}));
  EXPECT_EQ(*parse_window("1MB"), fixed_window({1'000'000}));
  for (const char* text : {"auto", "auto:4ms", "auto:500us", "128KiB", "131073"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(*parse_window(to_text(*parse_window(text))), *parse_window(text));
  }
}

TEST(Window, IsRefusedBelowTwoChunksAndWhenItIsNone) {
  EXPECT_EQ(parse_window("16KiB").status().message(),
            "--window 16KiB is smaller than two chunks of 65536 bytes; give at least 128KiB, or auto");
  EXPECT_FALSE(parse_window("131071").ok());
  for (const char* text : {"", "0", "big", "-1", "auto:", "auto:4", "auto:0ms", "auto:2s", "auto4ms", "nan", "2TiB"}) {
    SCOPED_TRACE(text);
    const auto window = parse_window(text);
    ASSERT_FALSE(window.ok());
    EXPECT_EQ(window.status().kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(window.status().message(), HasSubstr("--window"));
  }
}

TEST(Window, IsWhatTheLinkMovesInItsTimeAndARoundTrip) {
  const WindowRule rule{.link_time = 2ms};
  EXPECT_EQ(window_for(rule, {125e6}, 100us).count, 262'500);
  EXPECT_EQ(window_for(rule, {12.5e6}, 100us).count, 262'144) << "never less than four chunks";
  EXPECT_EQ(window_for(rule, {1e12}, 1ms), kLargestFollowing);
  EXPECT_EQ(window_for(fixed_window({200'000}), {125e6}, 1ms).count, 200'000);
  EXPECT_EQ(chunk_for({262'144}).count, 65'536);
  EXPECT_EQ(chunk_for({131'072}).count, 32'768) << "at least four chunks";
  EXPECT_EQ(chunk_for({4'000}).count, 16'384);
  EXPECT_EQ(chunk_for(kUnbounded).count, 65'536);
}

TEST(Window, ToSeveralDestinationsIsSomeSlicesButNotMoreThanALinkMovesInTenMillisecondsOrASwitchHolds) {
  const WindowRule rule{.spread = {1'200'000}};
  EXPECT_EQ(wide_for(rule, {125e6}).count, 1'200'000);
  EXPECT_EQ(wide_for(rule, {80e6}).count, 800'000);
  EXPECT_EQ(wide_for(rule, {12.5e6}).count, 600'000);
  EXPECT_EQ(wide_for(WindowRule{.spread = {120'000}}, {12.5e6}).count, 120'000);
  EXPECT_EQ(wide_for(rule, {1e30}).count, 1'200'000);
  EXPECT_EQ(wide_for(WindowRule{}, {125e6}).count, 0);
  EXPECT_EQ(wide_for(fixed_window({200'000}), {125e6}).count, 0);
}

}  // namespace
}  // namespace paceline::scheduling
