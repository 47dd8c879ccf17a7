#include "paceline/progress.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string written(std::FILE* file) {
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(ProgressLine, ShowsShareCountAndTimeLeft) {
  EXPECT_EQ(progress_line("packing", 1, 4, std::chrono::seconds(2), "loss 0.5"),
            "packing [#######                       ]  25 %  1 of 4  6.0 s left  loss 0.5");
  EXPECT_EQ(progress_line("x", 0, 4, std::chrono::seconds(2), ""), "x [                              ]   0 %  0 of 4");
  EXPECT_EQ(progress_line("x", 4, 4, std::chrono::seconds(2), ""), "x [##############################] 100 %  4 of 4  2.0 s");
  EXPECT_EQ(progress_line("x", 0, 0, std::chrono::seconds(0), ""), "x [##############################] 100 %  0 of 0  0 ns");
}

TEST(ProgressLine, FitsATerminalAndCoversTheLineBefore) {
  EXPECT_EQ(fitted_line("training [##]  5 %", 0, 0), "training [##]  5 %");
  EXPECT_EQ(fitted_line("training [##]  5 %", 10, 0), "training ");
  EXPECT_EQ(fitted_line("done", 80, 8), "done    ");
  EXPECT_EQ(fitted_line("done", 7, 8), "done  ");
  EXPECT_EQ(fitted_line("done", 1, 8), "");
}

TEST(ProgressBar, IsSilentWhereThereIsNoTerminal) {
  const File file(std::tmpfile(), &std::fclose);
  ManualClock clock;
  for (const ShowProgress show : {ShowProgress::kOnTerminal, ShowProgress::kNever}) {
    ProgressBar bar("x", 2, show, clock, file.get());
    EXPECT_FALSE(bar.shown());
    bar.update(1);
    bar.update(2);
  }
  EXPECT_EQ(written(file.get()), "");
}

TEST(ProgressBar, WritesALineASecondAndTheLastOneWhenAskedFor) {
  const File file(std::tmpfile(), &std::fclose);
  ManualClock clock;
  {
    ProgressBar bar("x", 40, ShowProgress::kAlways, clock, file.get());
    for (int i = 1; i <= 40; ++i) {
      clock.advance(std::chrono::milliseconds(100));
      bar.update(i);
    }
    bar.update(40);
  }
  const std::string text = written(file.get());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_NE(text.find("10 of 40"), std::string::npos) << text;
  EXPECT_NE(text.find("40 of 40"), std::string::npos) << text;
}

}  // namespace
}  // namespace paceline::cli
