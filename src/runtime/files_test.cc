#include "runtime/files.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::runtime {
namespace {

using ::testing::HasSubstr;

TEST(SystemFiles, AFileIsThereCompletelyOrNotAtAll) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("paceline-files-{}", ::getpid());
  Files& files = system_files();
  ASSERT_TRUE(files.make_directories((directory / "a/b").string()).ok());
  const std::string path = (directory / "a/b/file").string(), text = "twelve bytes";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const std::vector<std::span<const std::byte>> pieces = {bytes.first(5), bytes.subspan(5)};
  ASSERT_TRUE(write_file(files, path, pieces).ok());
  const auto reader = files.open(path);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->size(), text.size());
  std::string back(text.size(), ' ');
  ASSERT_TRUE((*reader)->read(0, std::as_writable_bytes(std::span(back))).ok());
  EXPECT_EQ(back, text);
  EXPECT_EQ((*reader)->read(1, std::as_writable_bytes(std::span(back))).kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(files.list((directory / "a/b").string()).value(), ::testing::ElementsAre("file"));
  EXPECT_TRUE(files.list((directory / "none").string()).value().empty());
  EXPECT_FALSE(files.open((directory / "a").string()).ok()) << "a directory is no file";
  EXPECT_FALSE(files.make_directories(path + "/below").ok());
  EXPECT_THAT(write_file(files, (directory / "none/file").string(), pieces).message(), HasSubstr("none/file"));
  ASSERT_TRUE(files.remove_all(directory.string()).ok());
  EXPECT_TRUE(files.remove_all(directory.string()).ok()) << "nothing there is well";
}

TEST(SystemFiles, ADirectoryIsLockedByOneAtATime) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("paceline-lock-{}", ::getpid());
  Files& files = system_files();
  ASSERT_TRUE(files.make_directories(directory.string()).ok());
  auto lock = files.lock_directory(directory.string());
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(files.lock_directory(directory.string()).status().kind(), ErrorKind::kOverloaded);
  *lock = nullptr;
  EXPECT_TRUE(files.lock_directory(directory.string()).ok());
  ASSERT_TRUE(files.remove_all(directory.string()).ok());
  EXPECT_EQ(files.lock_directory(directory.string()).status().kind(), ErrorKind::kIo);
}

TEST(SystemFiles, AFullDiskIsAnErrorThatNamesTheFile) {
  const auto writer = system_files().create("/dev/full");
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> some(100'000);
  Status status = (*writer)->append(some);
  if (status.ok()) status = (*writer)->finish();
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

}  // namespace
}  // namespace paceline::runtime
