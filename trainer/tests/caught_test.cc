#include "trainer/caught.h"

#include <stdexcept>

#include <gmock/gmock.h>

#include <torch/torch.h>

namespace paceline::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Caught, WhatIsReturnedIsPassedOn) {
  EXPECT_TRUE(caught("", [] { return Status(); }).ok());
  const Status status = caught("", [] { return Status(ErrorKind::kCorrupt, "rotten", {"illegal", "--file"}); });
  EXPECT_EQ(status.kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(status.message(), "rotten");
  EXPECT_EQ(status.code(), "illegal");
}

TEST(Caught, WhatLibTorchThrowsIsOneSentenceWithoutItsStack) {
  const Status status = caught("", [] {
    torch::zeros({2, 3}).matmul(torch::zeros({2, 3}));
    return Status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_THAT(status.message(), StartsWith("LibTorch failed: "));
  EXPECT_THAT(status.message(), HasSubstr("shapes cannot be multiplied"));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  EXPECT_THAT(status.message(), Not(HasSubstr("frame #")));
}

TEST(Caught, TooLittleMemoryAsksForASmallerMiniBatch) {
  const auto allocate = [] {
    torch::empty({std::int64_t{1} << 45});  // 128 TiB
    return Status();
  };
  for (const auto& work : std::initializer_list<std::function<Status()>>{allocate, []() -> Status { throw std::bad_alloc(); }}) {
    const Status status = caught("worker 3", work);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.kind(), ErrorKind::kOverloaded) << status.message();
    EXPECT_THAT(status.message(), StartsWith("worker 3: there is not enough memory"));
    EXPECT_THAT(status.message(), HasSubstr("give a smaller --mini-batch"));
  }
}

TEST(Caught, OtherExceptionsAreTheirFirstLine) {
  const Status status = caught("", []() -> Status { throw std::runtime_error("\nno such thing\nframe #0: main"); });
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_EQ(status.message(), "no such thing");
  EXPECT_FALSE(caught("", []() -> Status { throw std::runtime_error(""); }).message().empty());
}

}  // namespace
}  // namespace paceline::trainer
