#include "process/handed_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "process/child.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(HandedText, IsReadAsItWasGivenAndIsGoneThen) {
  for (const std::size_t size : {0UL, 1UL, 3'000'000UL}) {
    std::string text(size, 'x');
    if (size > 2) text[2] = '\0';
    auto handed = HandedText::make(text);
    ASSERT_TRUE(handed.ok()) << handed.status().message();
    const int copy = dup(handed->descriptor());
    const auto taken = take_handed_text(copy);
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_TRUE(*taken == text);
    EXPECT_EQ(take_handed_text(copy).status().kind(), ErrorKind::kBadRequest);
  }
}

TEST(HandedText, ReachesAChildThatIsToldItsNumberAndNoOther) {
  const auto handed = HandedText::make("by hand");
  ASSERT_TRUE(handed.ok());
  const std::vector<std::string> reader = {"cat", "/proc/self/fd/" + std::to_string(handed->descriptor())};
  const auto told = Child::start("reader", reader, {}, {handed->descriptor()});
  ASSERT_TRUE(told.ok());
  const auto printed = (*told)->finish(std::chrono::minutes(2));
  ASSERT_TRUE(printed.ok()) << printed.status().message();
  EXPECT_EQ(*printed, "by hand\n");
  const auto other = Child::start("reader", reader);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE((*other)->finish(std::chrono::minutes(2)).ok());
}

// A child gets pipes for them, and what had their numbers would be gone.
TEST(HandedText, ItIsNeverStandardInputOutputOrError) {
  const int kept = dup(0);
  close(0);
  const auto handed = HandedText::make("by hand");
  dup2(kept, 0);
  close(kept);
  ASSERT_TRUE(handed.ok());
  EXPECT_GE(handed->descriptor(), 3);
}

TEST(HandedText, OtherDescriptorsAreRefused) {
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe.ok());
  for (const int descriptor : {-1, 0, 12345, pipe->read}) {
    const Status status = take_handed_text(descriptor).status();
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(descriptor)));
  }
  close(pipe->read);
  close(pipe->write);
}

}  // namespace
}  // namespace paceline
