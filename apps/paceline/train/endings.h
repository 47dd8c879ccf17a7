// The ends of a job's processes. Several may be noticed at once, in any order; what they mean does not depend on it. Pure.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <vector>

#include <sys/wait.h>

namespace paceline::cli {

// 0: none. `wait_status`: waitpid's. On another machine the exit code tells, as a shell's does.
inline int signal_that_killed(int wait_status, bool remote) {
  constexpr int kSignalled = 128;
  if (WIFSIGNALED(wait_status)) return WTERMSIG(wait_status);
  const int code = remote ? WEXITSTATUS(wait_status) : 0;
  return code > kSignalled && code <= kSignalled + SIGRTMAX ? code - kSignalled : 0;
}

struct Ending {
  std::size_t process = 0;  // 0: the coordinator
  bool killed = false;      // by a signal
  bool well = false;
};

// Ends that were noticed together, in the order in which they explain each other: who was killed is why others failed; the
// coordinator knows more than who failed; who ended well after the coordinator, or after a loss, is to blame for nothing.
inline std::vector<Ending> by_cause(std::vector<Ending> endings) {
  const auto rank = [](const Ending& ending) { return ending.killed ? 0 : ending.process == 0 ? 1 : ending.well ? 3 : 2; };
  std::ranges::sort(
      endings, [&](const Ending& a, const Ending& b) { return rank(a) != rank(b) ? rank(a) < rank(b) : a.process < b.process; });
  return endings;
}

}  // namespace paceline::cli
