#include "paceline/train/endings.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Endings, AreToldByCauseInWhateverOrderTheyAreNoticed) {
  const std::vector<Ending> expected = {
      {.process = 2, .killed = true}, {.process = 0, .well = true}, {.process = 1}, {.process = 4}, {.process = 3, .well = true}};
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  do {
    std::vector<Ending> noticed;
    for (const std::size_t i : order) noticed.push_back(expected[i]);
    const std::vector<Ending> told = by_cause(noticed);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(told[i].process, expected[i].process);
  } while (std::ranges::next_permutation(order).found);
}

TEST(Endings, OnAnotherMachineSayByTheirExitCodeWhichSignalItWas) {
  EXPECT_EQ(signal_that_killed(SIGKILL, false), SIGKILL);
  EXPECT_EQ(signal_that_killed(W_EXITCODE(128 + SIGKILL, 0), true), SIGKILL);
  EXPECT_EQ(signal_that_killed(W_EXITCODE(128 + SIGKILL, 0), false), 0) << "a program's own code";
  for (const int code : {0, 1, 128, 255}) EXPECT_EQ(signal_that_killed(W_EXITCODE(code, 0), true), 0) << code;
}

}  // namespace
}  // namespace paceline::cli
