#include "forked_workers.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "process/handed_text.h"
#include "report/report.h"

namespace paceline::trainer {
namespace {

using report::Json;

struct Fork {
  Json request;
  int output = -1, errors = -1;
};

// Throws as Json does.
Result<std::vector<Fork>> parse(const char* argument) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, take_handed_text(Json::parse(argument).at(0).at("requests").get<int>()));
  std::vector<Fork> forks;
  for (const Json& one : Json::parse(text))
    forks.push_back({one.at("request"), one.at("output").get<int>(), one.at("errors").get<int>()});
  return forks;
}

// Waits until this process is the launcher's child, and ends with it from then on. `gone` is readable once the parent has ended.
void be_adopted(pid_t parent, pid_t launcher, int gone) {
  char nothing;
  while (::read(gone, &nothing, 1) < 0 && errno == EINTR) {
  }
  close(gone);
  // Its descriptors are closed a moment before its children get another parent.
  while (getppid() == parent) sched_yield();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);
}

void take_place(const std::vector<Fork>& forks, const Fork& mine, char* argument) {
  setpgid(0, 0);  // a Ctrl-C reaches only the launcher, which decides
  dup2(mine.output, STDOUT_FILENO);
  dup2(mine.errors, STDERR_FILENO);
  // Of the others, too: an end that somebody else keeps open never ends.
  for (const Fork& each : forks) {
    close(each.output);
    close(each.errors);
  }
  // And zeros to its end: what lists processes shows it.
  std::strncpy(argument, Json{{"rank", mine.request.at("rank")}}.dump().c_str(), std::strlen(argument));
}

}  // namespace

Result<std::optional<std::string>> fork_workers(char* argument) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Fork> forks, parse(argument));
  const pid_t launcher = getppid(), self = getpid();
  int gone[2];
  if (pipe2(gone, O_CLOEXEC) != 0) return error(ErrorKind::kIo, "cannot make a pipe: {}", std::strerror(errno));
  std::vector<pid_t> started;
  for (const Fork& mine : forks) {
    const pid_t pid = fork();
    if (pid == 0) {
      close(gone[1]);
      take_place(forks, mine, argument);
      be_adopted(self, launcher, gone[0]);
      return std::optional(mine.request.dump());
    }
    if (pid < 0) {
      const int reason = errno;
      for (const pid_t other : started) kill(other, SIGKILL);
      return error(ErrorKind::kIo, "cannot start a worker: {}", std::strerror(reason));
    }
    started.push_back(pid);
  }
  for (const pid_t pid : started) std::printf("%d\n", pid);
  std::fflush(stdout);
  return std::optional<std::string>();
}

}  // namespace paceline::trainer
