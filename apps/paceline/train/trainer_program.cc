#include "paceline/train/trainer_program.h"

#include <cerrno>
#include <filesystem>

#include <poll.h>
#include <sys/wait.h>

#include "paceline/command.h"
#include "paceline/train/child.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kErrorMark = "paceline: error: ";

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

// Waits for the end of the process; `on_line` gets every line that it prints.
Status run_child(const char* label, std::vector<std::string> arguments, const std::function<void(const std::string&)>& on_line) {
  PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start(label, std::move(arguments)));
  std::string reason;
  while (child->output() >= 0 || child->errors() >= 0) {
    pollfd ends[] = {{child->output(), POLLIN, 0}, {child->errors(), POLLIN, 0}};
    if (poll(ends, 2, -1) < 0 && errno != EINTR) return error(ErrorKind::kIo, "cannot wait for {}: errno {}", label, errno);
    child->read_output(on_line);
    child->read_errors([&](const std::string& line) {
      if (line.rfind(kErrorMark, 0) == 0)
        reason = line.substr(kErrorMark.size());
      else
        fmt::print(stderr, "{}\n", line);
    });
  }
  child->wait();
  if (child->wait_status() == 0) return {};
  const bool wrong = WIFEXITED(child->wait_status()) && WEXITSTATUS(child->wait_status()) == kWrongRequest;
  return error(wrong ? ErrorKind::kBadRequest : ErrorKind::kIo, "{}",
               reason.empty() ? fmt::format("{} {}", label, child->ending()) : reason);
}

}  // namespace

std::string trainer_path() { return (own_path().parent_path() / "paceline-trainer").string(); }

Status trainer_exists() {
  if (std::filesystem::exists(trainer_path())) return {};
  return error(ErrorKind::kIo,
               "{} is missing: this build has no trainer; build with -DPACELINE_TRAINER=ON (scripts/quickstart does)",
               trainer_path());
}

Status run_trainer(const runtime::Json& request, const std::function<void(const runtime::Json&)>& on_line) {
  PACELINE_RETURN_IF_ERROR(trainer_exists());
  return run_child("the trainer", {trainer_path(), request.dump()}, [&](const std::string& line) {
    const runtime::Json json = runtime::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) on_line(json);
  });
}

Result<std::string> run_paceline(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), own_path().string());
  std::string output;
  PACELINE_RETURN_IF_ERROR(run_child("paceline", std::move(arguments), [&](const std::string& line) { output += line + "\n"; }));
  return output;
}

}  // namespace paceline::cli
