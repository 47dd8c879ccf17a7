#include "lab/namespaces.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline::lab {
namespace {

// An anonymous file that holds `text`, read from its beginning.
Result<Descriptor> file_of(const std::string& text) {
  Descriptor file(memfd_create("paceline-lab", MFD_CLOEXEC));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return system_error("cannot make an anonymous file");
  }
  return file;
}

std::string text_of(const Descriptor& file) {
  std::string text(4096, '\0');
  const ssize_t count = pread(file.get(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  return text;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Status system_error(const std::string& what) {
  const bool forbidden = errno == EPERM || errno == EACCES;
  return Status(ErrorKind::kIo, fmt::format("lab: {}: {}", what, std::strerror(errno)), {forbidden ? "no-rights" : "", ""});
}

Result<Descriptor> make_network() {
  Descriptor network;
  Status status;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      status = system_error("cannot make a network namespace");
      return;
    }
    network = Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (network.get() < 0) status = system_error("cannot open a network namespace");
    // Without it the kernel sends neighbour discovery, and interfaces count bytes that nobody sent. A kernel without it is fine.
    std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
  }).join();
  PACELINE_RETURN_IF_ERROR(status);
  return network;
}

Status enter_network(const Descriptor& network) {
  if (setns(network.get(), CLONE_NEWNET) != 0) return system_error("cannot enter a network namespace");
  return {};
}

Status within(const Descriptor& network, const std::function<Status()>& action) {
  Status status;
  std::thread([&] {
    status = enter_network(network);
    if (status.ok()) status = action();
  }).join();
  return status;
}

Status run_within(const Descriptor& network, std::vector<std::string> arguments, const std::string& input) {
  PACELINE_ASSIGN_OR_RETURN(const Descriptor in, file_of(input));
  PACELINE_ASSIGN_OR_RETURN(const Descriptor out, file_of(""));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    if (setns(network.get(), CLONE_NEWNET) == 0 && dup2(in.get(), 0) == 0 && dup2(out.get(), 1) == 1 && dup2(out.get(), 2) == 2)
      execv(argv[0], argv.data());
    _exit(127);
  }
  if (pid < 0) return system_error("cannot start " + arguments[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return error(ErrorKind::kIo, "lab: {} failed: {}", arguments[0], text_of(out));
}

std::string path_of(const Descriptor& network) { return fmt::format("/proc/{}/fd/{}", getpid(), network.get()); }

}  // namespace paceline::lab
