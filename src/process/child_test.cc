#include "process/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLong = std::chrono::minutes(2);

Result<std::string> printed_by(const std::vector<std::string>& arguments, Duration limit = kLong) {
  PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start(arguments[0], arguments));
  return child->finish(limit);
}

TEST(Child, GetsItsArgumentsAsTheyAreForNoShellStandsBetween) {
  const auto printed = printed_by({"printf", "%s\n", "it's", "$(false)", "a b", "; exit 3", ">x", ""});
  ASSERT_TRUE(printed.ok()) << printed.status().message();
  EXPECT_EQ(*printed, "it's\n$(false)\na b\n; exit 3\n>x\n\n");
}

TEST(Child, SaysHowItFailedWithTheLastThingItSaid) {
  const Status status = printed_by({"sh", "-c", "echo first >&2; echo last >&2; exit 3"}).status();
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_EQ(status.message(), "sh exited with code 3: last");
  EXPECT_EQ(printed_by({"false"}).status().message(), "false exited with code 1");
  EXPECT_THAT(printed_by({"/no/such/program"}).status().message(), HasSubstr("cannot start /no/such/program"));
}

TEST(Child, OneThatDoesNotEndIsNotWaitedForLongerThanAsked) {
  const Status status = printed_by({"sleep", "600"}, Duration::zero()).status();
  EXPECT_EQ(status.kind(), ErrorKind::kDeadline);
  EXPECT_THAT(status.message(), HasSubstr("sleep took longer than"));
}

TEST(Child, IsWaitedForUntilItSaysThatItIsReady) {
  const auto child = Child::start("server", {"sh", "-c", "echo starting; echo now listening; exec sleep 600"});
  ASSERT_TRUE(child.ok());
  EXPECT_TRUE((*child)->wait_for_line("listening", kLong).ok());
  EXPECT_FALSE((*child)->ended());
  const auto other = Child::start("server", {"sh", "-c", "echo starting; echo no port >&2; exit 1"});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->wait_for_line("listening", kLong).message(), "server exited with code 1: no port");
}

}  // namespace
}  // namespace paceline
