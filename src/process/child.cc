#include "process/child.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error_line.h"
#include "base/text.h"

namespace paceline {
namespace {

void close_if_open(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, const Pipe& input,
                         const Pipe& output, const Pipe& errors, const std::vector<int>& kept, pid_t parent) {
  setpgid(0, 0);  // a Ctrl-C reaches only the parent, which decides
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  if (input.read >= 0) {
    fcntl(input.read, F_SETFL, 0);
    dup2(input.read, STDIN_FILENO);
  } else if (isatty(STDIN_FILENO) == 1) {  // who is not in its group would stand still when it reads from it
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  }
  dup2(output.write, STDOUT_FILENO);
  dup2(errors.write, STDERR_FILENO);
  for (const int descriptor : kept) fcntl(descriptor, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  execvp(argv[0], argv.data());
  const int why = errno;
  const std::string message = error_line(error(ErrorKind::kIo, "cannot start {}: {}", arguments[0], std::strerror(why))
                                             .because({why == ENOENT ? "no-file" : "", ""})) +
                              "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
  _exit(127);
}

}  // namespace

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error(ErrorKind::kIo, "cannot make a pipe: {}", std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{ends[0], ends[1]};
}

Result<std::unique_ptr<Child>> Child::start(std::string label, const std::vector<std::string>& arguments,
                                            const std::vector<std::string>& environment, const std::vector<int>& kept, Input kind) {
  Pipe input;
  if (kind == Input::kPipe) {
    PACELINE_ASSIGN_OR_RETURN(input, make_pipe());
  }
  PACELINE_ASSIGN_OR_RETURN(const Pipe output, make_pipe());
  PACELINE_ASSIGN_OR_RETURN(const Pipe errors, make_pipe());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(arguments, environment, input, output, errors, kept, parent);
  for (const int end : {input.read, output.write, errors.write}) close_if_open(end);
  if (pid < 0) {
    for (const int end : {input.write, output.read, errors.read}) close_if_open(end);
    return error(ErrorKind::kIo, "cannot start {}: {}", label, std::strerror(errno));
  }
  std::unique_ptr<Child> child(new Child(std::move(label), pid, output.read, errors.read));
  child->input_ = input.write;
  return child;
}

std::unique_ptr<Child> Child::adopt(std::string label, pid_t pid, int output, int errors) {
  return std::unique_ptr<Child>(new Child(std::move(label), pid, output, errors));
}

Child::~Child() {
  if (!try_wait()) {
    signal(SIGKILL);
    waitpid(pid_, &wait_status_, 0);
  }
  for (const int end : {input_, output_, errors_}) close_if_open(end);
}

void Child::read(int& descriptor, std::string& rest, const std::function<void(const std::string&)>& on_line) {
  constexpr std::size_t kMost = 64 << 10;  // of a child that prints faster than lines are taken
  char buffer[4096];
  for (std::size_t taken = 0; descriptor >= 0 && taken < kMost;) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      close(descriptor);
      descriptor = -1;
      if (!rest.empty()) on_line(std::exchange(rest, {}));
      return;
    }
    taken += static_cast<std::size_t>(count);
    std::size_t begin = 0, searched = rest.size();
    rest.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end; (end = rest.find('\n', searched)) != std::string::npos; searched = begin = end + 1)
      on_line(rest.substr(begin, end - begin));
    rest.erase(0, begin);
  }
}

void Child::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool Child::try_wait() {
  if (ended_) return true;
  siginfo_t info{};
  // Not reaped yet, so that the number of its group is nobody else's.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) return false;
  if (takes_group_along_) kill(-pid_, SIGKILL);
  ended_ = waitpid(pid_, &wait_status_, WNOHANG) == pid_;
  return ended_;
}

void Child::wait() {
  while (!ended_) {
    if (waitpid(pid_, &wait_status_, 0) == pid_) ended_ = true;
  }
}

std::string Child::ending() const {
  if (WIFSIGNALED(wait_status_)) return fmt::format("was killed by signal {}", WTERMSIG(wait_status_));
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status_));
}

Status Child::failed(const std::string& last_error) const {
  const auto said = read_error_line(last_error);
  return error(ErrorKind::kIo, "{} {}{}{}", label_, ending(), last_error.empty() ? "" : ": ", without_code(last_error))
      .because({said ? said->code : "program-failed", ""});
}

// Until `done` says so, of what was read and whether it has ended, or the limit is over.
template <typename Done, typename OnLine>
Status Child::read_until(Duration limit, std::string& last_error, Done done, OnLine on_line) {
  constexpr Duration kPatience = std::chrono::milliseconds(100);  // a child that has closed its ends is looked at again
  const SystemClock clock;
  const TimePoint deadline = clock.now() + limit;
  while (!done()) {
    const Duration left = std::min<Duration>(deadline - clock.now(), kPatience);
    if (left <= Duration::zero()) return error(ErrorKind::kDeadline, "{} took longer than {}", label_, to_text(limit));
    pollfd ends[] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
    poll(ends, 2, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    read_output(on_line);
    read_errors([&](const std::string& line) { last_error = line; });
    try_wait();
  }
  return {};
}

Status Child::wait_for_line(std::string_view text, Duration limit) {
  std::string last_error;
  bool found = false;
  PACELINE_RETURN_IF_ERROR(read_until(
      limit, last_error, [&] { return found || (ended_ && output_ < 0 && errors_ < 0); },
      [&](const std::string& line) { found = found || line.find(text) != std::string::npos; }));
  return found ? Status() : failed(last_error);
}

Result<std::string> Child::finish(Duration limit) {
  std::string last_error, printed;
  PACELINE_RETURN_IF_ERROR(read_until(
      limit, last_error, [&] { return ended_ && output_ < 0 && errors_ < 0; },
      [&](const std::string& line) { printed += line + "\n"; }));
  if (wait_status_ != 0) return failed(last_error);
  return printed;
}

}  // namespace paceline
