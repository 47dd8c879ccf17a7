#include "paceline/train/event_lines.h"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::cli {
namespace {

using Worth = EventLines::Worth;

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t count = 0; (count = ::read(descriptor, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  return text;
}

TEST(EventLines, AReaderThatStandsStillHoldsUpNobodyAndMissesNothingButProgress) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::FILE* const to = ::fdopen(ends[1], "w");
  std::string text;
  std::thread reader;
  {
    EventLines lines(to);
    lines.add("listening", Worth::kKept);
    for (int i = 0; i < 2 * EventLines::kMostWaiting; ++i) lines.add("progress", Worth::kPassing);
    lines.add("report", Worth::kKept);
    reader = std::thread([&] { text = read_all(ends[0]); });
  }
  std::fclose(to);
  reader.join();
  ::close(ends[0]);
  EXPECT_TRUE(text.starts_with("listening\nprogress\n"));
  EXPECT_TRUE(text.ends_with("\nprogress\nreport\n"));
  const auto count = std::ranges::count(text, '\n');
  EXPECT_GE(count, EventLines::kMostWaiting);
  EXPECT_LT(count, 2 * EventLines::kMostWaiting) << "something was left out";
}

TEST(EventLines, AreWrittenOnceThatWasWaitedFor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_NONBLOCK), 0);
  std::FILE* const to = ::fdopen(ends[1], "w");
  EventLines lines(to);
  for (int i = 0; i < 1000; ++i) {
    lines.add("listening", Worth::kKept);
    lines.add("gathered", Worth::kKept);
    lines.wait_written();
    ASSERT_EQ(read_all(ends[0]), "listening\ngathered\n") << "time " << i;
  }
  std::fclose(to);
  ::close(ends[0]);
}

}  // namespace
}  // namespace paceline::cli
