#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/new_file.h"

namespace paceline {
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
  EXPECT_TRUE(files.list(path).value().empty()) << "a file is no directory";
  EXPECT_TRUE(files.remove_directory_if_empty((directory / "a/b").string()).ok());
  EXPECT_TRUE(files.open(path).ok()) << "a directory goes only when nothing is in it";
  EXPECT_FALSE(files.remove_file((directory / "a/b").string()).ok()) << "a directory is no file";
  EXPECT_TRUE(files.remove_file(path).ok());
  EXPECT_TRUE(files.remove_file(path).ok()) << "nothing there is well";
  EXPECT_TRUE(files.remove_directory_if_empty((directory / "a/b").string()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "a/b"));
  EXPECT_TRUE(files.remove_directory_if_empty((directory / "a/b").string()).ok()) << "nothing there is well";
  std::filesystem::remove_all(directory);
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
  std::filesystem::remove_all(directory);
  EXPECT_EQ(files.lock_directory(directory.string()).status().kind(), ErrorKind::kIo);
}

TEST(SystemFiles, ALockEndsWithItsOwnerAndNotWithAChildThatWasForked) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("paceline-forked-lock-{}", ::getpid());
  std::filesystem::create_directory(directory);
  Files& files = system_files();
  auto lock = files.lock_directory(directory.string());
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  int ended[2];
  ASSERT_EQ(::pipe(ended), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ended[1]);
    for (int descriptor = 3; descriptor < 100; ++descriptor) {
      struct stat found {};
      if (::fstat(descriptor, &found) == 0 && S_ISDIR(found.st_mode))
        ::_exit(2);  // it would hold the lock of an owner that was killed
    }
    char nothing;
    ::_exit(::read(ended[0], &nothing, 1) == 0 ? 0 : 1);  // lives until the parent has looked
  }
  ::close(ended[0]);
  *lock = nullptr;
  EXPECT_TRUE(files.lock_directory(directory.string()).ok());
  ::close(ended[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child still has the directory";
  std::filesystem::remove(directory);
}

// A folder with one of each kind of thing that is no regular file, and links.
class Strange : public ::testing::Test {
 protected:
  Strange() {
    std::filesystem::create_directories(folder_ / "folder");
    ::mkfifo(path("pipe").c_str(), 0600);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{AF_UNIX, {}};
    path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
    std::filesystem::create_symlink("/dev/null", folder_ / "device");  // a test need not be root
    std::filesystem::create_symlink("pipe", folder_ / "link to a pipe");
    std::filesystem::create_symlink("round", folder_ / "round");
    std::ofstream(folder_ / "file") << "old";
    std::filesystem::create_symlink("file", folder_ / "link");
    std::filesystem::create_symlink("../" + folder_.filename().string() + "/link", folder_ / "link to a link");
    std::filesystem::create_symlink("folder/new", folder_ / "dangling");
  }
  ~Strange() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / fmt::format("paceline-strange-{}", ::getpid());
  const std::vector<std::pair<std::string, std::string>> kinds_ = {{"folder", "a directory (folder)"},
                                                                   {"pipe", "a pipe"},
                                                                   {"socket", "a socket"},
                                                                   {"device", "a device"},
                                                                   {"link to a pipe", "a pipe"}};
};

TEST_F(Strange, WhatIsNoFileIsNotReadAndNobodyWaitsForIt) {
  for (const auto& [name, kind] : kinds_) {
    const auto text = read_text(system_files(), path(name), Bytes{100});
    EXPECT_EQ(text.status().kind(), ErrorKind::kBadRequest) << name;
    EXPECT_THAT(text.status().message(), ::testing::AllOf(HasSubstr(path(name)), HasSubstr("not a regular file but " + kind)));
  }
  EXPECT_THAT(read_text(system_files(), path("absent"), Bytes{100}).status().message(), HasSubstr("No such file"));
  EXPECT_FALSE(read_text(system_files(), path("round"), Bytes{100}).ok());
  EXPECT_EQ(read_text(system_files(), path("link to a link"), Bytes{3}).value(), "old");
  EXPECT_THAT(read_text(system_files(), path("file"), Bytes{2}).status().message(), HasSubstr("3 bytes, at most 2"));
}

TEST_F(Strange, WhatIsNoFileIsNeverReplaced) {
  for (const auto& [name, kind] : kinds_) {
    EXPECT_THAT(can_write(system_files(), path(name)).message(), HasSubstr(kind)) << name;
    EXPECT_EQ(write_file(system_files(), path(name), "new").kind(), ErrorKind::kBadRequest) << name;
    EXPECT_THAT(read_text(system_files(), path(name), Bytes{100}).status().message(), HasSubstr(kind)) << "it is as it was";
  }
  EXPECT_FALSE(write_file(system_files(), path("round"), "new").ok());
  EXPECT_EQ(write_file(system_files(), path("folder/"), "new").kind(), ErrorKind::kBadRequest);
}

TEST_F(Strange, ALinkStaysAndItsTargetIsReplacedOrMade) {
  for (const char* name : {"link", "link to a link", "dangling"}) {
    EXPECT_TRUE(can_write(system_files(), path(name)).ok()) << name;
    ASSERT_TRUE(write_file(system_files(), path(name), fmt::format("by {}", name)).ok()) << name;
    EXPECT_TRUE(std::filesystem::is_symlink(path(name))) << name;
    EXPECT_EQ(content(name), fmt::format("by {}", name));
  }
  EXPECT_EQ(content("file"), "by link to a link");
  EXPECT_EQ(content("folder/new"), "by dangling");
}

TEST_F(Strange, AFileBesideItThatHappensToHaveATemporarysNameStays) {
  std::ofstream(path("file.tmp")) << "mine";
  const std::string own = fmt::format("file.{}-0.tmp", ::getpid());
  std::ofstream(path(own)) << "mine too";
  ASSERT_TRUE(can_write(system_files(), path("file")).ok());
  EXPECT_EQ(content("file"), "old") << "asking changes nothing";
  ASSERT_TRUE(write_file(system_files(), path("file"), "new").ok());
  EXPECT_EQ(content("file.tmp") + content(own) + content("file"), "minemine toonew");
}

TEST_F(Strange, AFileThatIsNotFinishedLeavesTheOldOneAndNothingElse) {
  const auto before = system_files().list(folder_.string()).value();
  {
    const auto file = NewFile::create(system_files(), path("file"));
    ASSERT_TRUE(file.ok());
    const std::string text = "begun";
    ASSERT_TRUE((*file)->writer().append(std::as_bytes(std::span(text))).ok());
    ASSERT_TRUE((*file)->writer().overwrite_beginning(std::as_bytes(std::span(text).first(2))).ok());
  }
  EXPECT_EQ(content("file"), "old");
  EXPECT_EQ(system_files().list(folder_.string()).value(), before);
}

}  // namespace
}  // namespace paceline
