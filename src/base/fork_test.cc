#include "base/fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

// What `holds` says in a child.
bool in_child(bool (*holds)(int), int descriptor) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds(descriptor) ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(Fork, AChildIsAnotherGeneration) {
  static const std::uint64_t parent = process_generation();
  EXPECT_TRUE(in_child([](int) { return process_generation() != parent; }, 0));
  EXPECT_EQ(process_generation(), parent);
}

TEST(Fork, AChildHasNoneOfTheSocketsThatAreOnlyItsParents) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close_in_children(ends[0]);
  EXPECT_FALSE(in_child(is_open, ends[0]));
  EXPECT_TRUE(in_child(is_open, ends[1]));
  EXPECT_TRUE(is_open(ends[0]));
  // The number is a file's now, which a child keeps.
  ::close(ends[0]);
  const int file = ::open("/dev/null", O_RDONLY);
  ASSERT_EQ(::dup2(file, ends[0]), ends[0]);
  EXPECT_TRUE(in_child(is_open, ends[0]));
  for (const int descriptor : {ends[0], ends[1]}) ::close(descriptor);
  if (file != ends[0]) ::close(file);
}

TEST(Fork, DescriptorsThatAreNoneAreNoMatter) {
  for (const int descriptor : {-1, 1 << 20}) close_in_children(descriptor);
  EXPECT_TRUE(in_child(is_open, 0));
}

}  // namespace
}  // namespace paceline
