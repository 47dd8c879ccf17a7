#include "lab/host_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline::lab {
namespace {

struct Pipe {
  Descriptor read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// What the new process needs, made before it is, since a copy of a process with threads may not allocate.
struct Start {
  std::vector<char*> arguments, environment;
  int network, go, output, errors;
};

sigset_t every_signal() {
  sigset_t all;
  sigfillset(&all);
  return all;
}

pid_t copy_process(unsigned long flags) { return static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)); }

[[noreturn]] void fail(const char* what, const char* subject = "") {
  const int why = errno;
  const char* const page = why == ENOENT ? "PL-NO-FILE" : "PL-IO";
  const char* const parts[] = {
      "paceline: error: lab: cannot ", what, subject, ": ", strerror(why), " [paceline help ", page, "]\n"};
  for (const char* part : parts) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, part, strlen(part));
  }
  _exit(127);
}

[[noreturn]] void become_command(const Start& start) {
  setpgid(0, 0);
  // A shell has what it starts in the background ignore it, and with it a lab asks its commands to end, perhaps already.
  signal(SIGINT, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(start.arguments[0], start.arguments.data(), start.environment.data());
  fail("start ", start.arguments[0]);
}

// The first process of the new process namespace: passes signals on, collects orphans, and ends with the command. When it ends, for
// whatever reason, the kernel kills every other process of the namespace.
[[noreturn]] void be_first(const Start& start) {
  setpgid(0, 0);  // a Ctrl-C reaches only the lab, which decides
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char go = 0;
  if (read(start.go, &go, 1) != 1) _exit(127);  // the lab was gone before the line above, or gave up
  if (dup2(start.output, STDOUT_FILENO) < 0 || dup2(start.errors, STDERR_FILENO) < 0) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) fail("open /dev/null");
  if (setns(start.network, CLONE_NEWNET) != 0) fail("enter the host's network");
  syscall(SYS_close_range, 3U, ~0U, 0U);
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  // Where a container forbids these two, programs see the machine's processes and interfaces, but cannot touch them.
  mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);

  const sigset_t all = every_signal();  // which are blocked already
  const pid_t command = copy_process(0);
  if (command == 0) become_command(start);
  if (command < 0) fail("start a process");
  close(STDOUT_FILENO);
  close(STDERR_FILENO);
  for (;;) {
    int signal = 0;
    if (sigwait(&all, &signal) != 0) continue;
    if (signal != SIGCHLD) {
      if (kill(-command, signal) != 0) kill(command, signal);
      continue;
    }
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == command) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
  }
}

}  // namespace

Result<std::unique_ptr<HostProcess>> HostProcess::start(const Descriptor& network, const ProcessorLimit* limit,
                                                        HostCommand command) {
  PACELINE_CHECK(!command.arguments.empty(), "a command without a program");
  PACELINE_ASSIGN_OR_RETURN(Pipe output, make_pipe());
  PACELINE_ASSIGN_OR_RETURN(Pipe errors, make_pipe());
  PACELINE_ASSIGN_OR_RETURN(Pipe go, make_pipe());
  Start start{.network = network.get(), .go = go.read.get(), .output = output.write.get(), .errors = errors.write.get()};
  for (std::string& argument : command.arguments) start.arguments.push_back(argument.data());
  start.arguments.push_back(nullptr);
  for (std::string& variable : command.environment) start.environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name(*variable, std::strcspn(*variable, "=") + 1);  // "NAME="
    bool replaced = false;
    for (const std::string& ours : command.environment) replaced = replaced || ours.rfind(name, 0) == 0;
    if (!replaced) start.environment.push_back(*variable);
  }
  start.environment.push_back(nullptr);

  std::unique_ptr<HostProcess> process(new HostProcess);
  // The first process of a namespace loses a signal that it neither blocks nor handles, so it begins with all of them blocked.
  const sigset_t all = every_signal();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  process->pid_ = copy_process(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC);
  if (process->pid_ == 0) {
    close(go.write.get());
    be_first(start);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process->pid_ < 0) return system_error("cannot start a process in namespaces of its own");
  process->output_ = std::move(output.read);
  process->errors_ = std::move(errors.read);
  fcntl(process->output(), F_SETFL, O_NONBLOCK);
  fcntl(process->errors(), F_SETFL, O_NONBLOCK);
  process->ending_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0)));
  if (process->ending() < 0) return system_error("cannot watch a process");
  if (limit != nullptr) PACELINE_RETURN_IF_ERROR(limit->admit(process->pid_));
  if (write(go.write.get(), "", 1) != 1) return system_error("cannot start a process");
  return process;
}

HostProcess::~HostProcess() {
  if (pid_ < 0 || try_wait()) return;
  kill(pid_, SIGKILL);
  collect(0);
}

void HostProcess::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool HostProcess::try_wait() {
  if (!ended_) collect(WNOHANG);
  return ended_;
}

void HostProcess::collect(int options) {
  int status = 0;
  rusage usage{};
  pid_t collected = 0;
  while ((collected = wait4(pid_, &status, options, &usage)) < 0 && errno == EINTR) {
  }
  if (collected != pid_) return;
  ended_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const auto of = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  cpu_seconds_ = of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace paceline::lab
