#include "paceline/picture.h"

#include <filesystem>

#include <poll.h>
#include <sys/wait.h>

#include "paceline/environment.h"
#include "paceline/train/child.h"

namespace paceline::cli {
namespace {

std::string python() {
  if (const auto given = environment("PACELINE_PYTHON")) return *given;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  for (const std::filesystem::path& folder : {program.parent_path() / "../../..", std::filesystem::path(".")}) {
    const std::filesystem::path candidate = folder / ".venv/bin/python";
    if (std::filesystem::exists(candidate)) return candidate.string();
  }
  return "python3";
}

}  // namespace

Status draw(const std::string& script, const std::string& json, const std::string& file) {
  const std::string interpreter = python();
  PACELINE_ASSIGN_OR_RETURN(const auto child, Child::start("python", {interpreter, "-c", script, file, json},
                                                           {"MPLBACKEND=Agg", "PYTHONDONTWRITEBYTECODE=1"}));
  std::string last;
  while (child->output() >= 0 || child->errors() >= 0) {
    pollfd ends[] = {{child->output(), POLLIN, 0}, {child->errors(), POLLIN, 0}};
    poll(ends, 2, -1);
    child->read_output([](const std::string&) {});
    child->read_errors([&last](const std::string& line) { last = line; });
  }
  child->wait();
  if (child->wait_status() == 0) return {};
  return error(ErrorKind::kIo, "{} could not draw {}: {}; matplotlib is needed ('pip install matplotlib', or PACELINE_PYTHON)",
               interpreter, file, last.empty() ? child->ending() : last);
}

}  // namespace paceline::cli
