#include "base/job_key_file.h"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

class JobKeyFile : public ::testing::Test {
 protected:
  JobKeyFile() {
    std::string name = "/tmp/paceline-key-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~JobKeyFile() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string made(const std::string& name, std::size_t bytes, ::mode_t mode = 0600) const {
    std::ofstream(path(name)) << std::string(bytes, 'k');
    ::chmod(path(name).c_str(), mode);
    return path(name);
  }
  std::string refusal(const std::string& source) const {
    const auto key = read_job_key(source);
    EXPECT_FALSE(key.ok()) << source;
    EXPECT_EQ(key.status().kind(), ErrorKind::kBadRequest) << key.status().message();
    EXPECT_THAT(key.status().message(), HasSubstr(source));
    return key.status().message();
  }

  std::filesystem::path folder_;
};

TEST_F(JobKeyFile, WhatIsWrittenIsReadAndOnlyByItsOwner) {
  const JobKey key = JobKey::draw();
  ASSERT_TRUE(write_job_key(path("key"), key).ok());
  struct stat about {};
  ASSERT_EQ(::stat(path("key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600U);
  EXPECT_EQ(about.st_size, 32);
  EXPECT_TRUE(read_job_key(path("key")).value() == key);
}

TEST_F(JobKeyFile, NothingThatIsThereIsReplaced) {
  const std::string there = made("there", 5);
  std::filesystem::create_symlink(path("nothing"), path("link"));
  for (const std::string& name : {there, path("link"), folder_.string()}) {
    const Status status = write_job_key(name, JobKey::draw());
    EXPECT_EQ(status.kind(), ErrorKind::kBadRequest) << name;
    EXPECT_THAT(status.message(), HasSubstr("is there already"));
  }
  EXPECT_EQ(std::filesystem::file_size(there), 5U);
  EXPECT_FALSE(std::filesystem::exists(path("nothing")));
}

TEST_F(JobKeyFile, FilesThatOthersMayUseOrThatAreNoKeyAreRefused) {
  for (const ::mode_t mode : {0644U, 0640U, 0604U, 0620U, 0602U, 0611U})
    EXPECT_THAT(refusal(made("open", 32, mode)), HasSubstr("chmod 600"));
  for (const std::size_t bytes : {0U, 31U, 33U, 5000U}) EXPECT_THAT(refusal(made("wrong", bytes)), HasSubstr("exactly 32"));
  EXPECT_THAT(refusal(folder_.string()), HasSubstr("a directory"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("no regular file"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(path("pipe")), HasSubstr("no regular file"));  // and nobody waits for a writer
  EXPECT_THAT(refusal(path("missing")), HasSubstr("paceline key new"));
  for (const char* const wrong : {"fd:", "fd:x", "fd:0", "fd:2", "fd:-1", "fd:12345", "fd:3x"}) refusal(wrong);
}

TEST(KeyRights, RootMayLetAGroupOfTheUsersReadAndNobodyElseMay) {
  const std::vector<::gid_t> groups = {1000, 2000};
  EXPECT_EQ(rights_of({1000, 1000, 0600}, 1000, groups), KeyRights::kFit);
  EXPECT_EQ(rights_of({0, 0, 0400}, 1000, groups), KeyRights::kFit);
  EXPECT_EQ(rights_of({1001, 1000, 0400}, 1000, groups), KeyRights::kAnotherUsers);
  for (const ::mode_t mode : {0440U, 0640U}) {
    EXPECT_EQ(rights_of({0, 2000, mode}, 1000, groups), KeyRights::kFit) << "a Secret with an fsGroup";
    EXPECT_EQ(rights_of({0, 3000, mode}, 1000, groups), KeyRights::kTooOpen) << "another group";
    EXPECT_EQ(rights_of({1000, 1000, mode}, 1000, groups), KeyRights::kTooOpen) << "the user's own file";
    EXPECT_EQ(rights_of({0, 0, mode}, 0, std::vector<::gid_t>{0}), KeyRights::kTooOpen) << "root's own file";
  }
  for (const ::mode_t mode : {0444U, 0460U, 0450U, 0644U}) EXPECT_EQ(rights_of({0, 2000, mode}, 1000, groups), KeyRights::kTooOpen);
}

TEST_F(JobKeyFile, ADescriptorThatWasInheritedIsReadAnyNumberOfTimesAndHandedOnByNobody) {
  const int descriptor = ::open(made("key", 32).c_str(), O_RDONLY);
  ASSERT_GE(descriptor, 3);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(read_job_key(fmt::format("fd:{}", descriptor)).ok());
  EXPECT_TRUE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
  ::close(descriptor);
}

}  // namespace
}  // namespace paceline
