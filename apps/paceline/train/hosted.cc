// `paceline hosted`: a process of a job on a machine of --hosts. ssh starts it; what to start stands on standard input, behind it
// the job's key. Standard input then stays open for as long as whoever started the job is there: when it ends, so does the process.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paceline/machine.h"
#include "paceline/train/job_process.h"
#include "transport/security.h"

namespace paceline::cli {
namespace {

using report::Json;

constexpr int kSignalled = 128;  // a shell's exit code of what signal 0 killed
constexpr int kPatience = 100;   // milliseconds; who has closed its ends is looked at again

// Never more than is meant: what follows is another's.
Status read_exactly(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return error(ErrorKind::kBadRequest, "'paceline hosted' is for 'paceline run --hosts' and 'paceline train --hosts'");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> read_line() {
  constexpr std::size_t kMost = 16 << 20;
  std::string line;
  for (std::byte letter{}; line.size() < kMost; line += static_cast<char>(letter)) {
    PACELINE_RETURN_IF_ERROR(read_exactly({&letter, 1}));
    if (letter == std::byte{'\n'}) return line;
  }
  return error(ErrorKind::kBadRequest, "'paceline hosted' was told more than {} bytes", kMost);
}

Result<HandedKey> read_key(const Json& told) {
  const auto size = told.at("key_bytes").get<std::size_t>();
  if (size == 0) return HandedKey();
  constexpr std::size_t kMost = 1 << 20;  // of a certificate with its key
  if (size > kMost) return error(ErrorKind::kBadRequest, "a key of {} bytes", size);
  std::vector<std::byte> bytes(size);
  PACELINE_RETURN_IF_ERROR(read_exactly(bytes));
  const auto key = JobKey::from(bytes);
  wipe(bytes);
  PACELINE_RETURN_IF_ERROR(key.status());
  return HandedKey::make(told.at("clear_data").get<bool>() ? key->leaving_data_clear() : *key);
}

Result<std::unique_ptr<Child>> start_told() {
  PACELINE_ASSIGN_OR_RETURN(const std::string line, read_line());
  try {
    const Json told = Json::parse(line);
    PACELINE_ASSIGN_OR_RETURN(const JobProcess process, job_process(told.at("process")));
    PACELINE_ASSIGN_OR_RETURN(const HandedKey key, read_key(told));
    const std::string folder = told.at("folder");
    std::error_code problem;
    std::filesystem::current_path(folder, problem);
    if (problem) return error(ErrorKind::kBadRequest, "{} cannot be in {}: {}", process.label, folder, problem.message());
    PACELINE_ASSIGN_OR_RETURN(const auto coordinator, transport::parse_address(process.coordinator));
    PACELINE_ASSIGN_OR_RETURN(const std::string own, address_toward(coordinator.host));
    return start(process, key, own);
  } catch (const nlohmann::json::exception& wrong) {
    return error(ErrorKind::kBadRequest, "'paceline hosted' is told what to do by another release: {}", wrong.what());
  }
}

void print_line(std::ostream& stream, const std::string& line) { stream << line << std::endl; }

int run_hosted() {
  // The end of standard input says all that these would.
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const auto started = start_told();
  if (!started.ok()) return report_error(started.status());
  Child& child = **started;
  bool left = false;
  while (!child.try_wait() || (!left && (child.output() >= 0 || child.errors() >= 0))) {
    pollfd ends[] = {{left ? -1 : STDIN_FILENO, POLLIN, 0}, {child.output(), POLLIN, 0}, {child.errors(), POLLIN, 0}};
    poll(ends, std::size(ends), kPatience);
    char ignored[64];
    if ((ends[0].revents != 0) && ::read(STDIN_FILENO, ignored, sizeof ignored) <= 0) {
      left = true;
      child.signal(SIGKILL);
    }
    child.read_output([](const std::string& line) { print_line(std::cout, line); });
    child.read_errors([](const std::string& line) { print_line(std::cerr, line); });
  }
  const int status = child.wait_status();
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void add_hosted(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("hosted", "A process of a job on a machine of --hosts, as ssh starts it");
  command->group("");  // for no person
  command->callback([&chosen] { chosen.run = run_hosted; });
}

}  // namespace paceline::cli
