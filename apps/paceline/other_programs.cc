#include "paceline/other_programs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "paceline/beside.h"

namespace paceline::cli {
namespace {

struct OtherProgram {
  const char* command;
  const char* purpose;  // as the command itself says it
  const char* missing;  // why it may not be there, and what to do
};

constexpr OtherProgram kPrograms[] = {
    {"doctor", "Examine this machine, and the way to hosts where 'paceline doctor --serve' runs",
     "build it: ninja -C build/release paceline-doctor"},
    {"bench", "Measure this machine: what the parts cost against what it allows",
     "this build has no benchmarks; configure with -DPACELINE_BENCH=ON (the release preset has it) and build paceline-bench"},
    {"lab", "Hosts with shaped links on this machine, and a command on each", "build it: ninja -C build/release paceline-lab"},
};

int become(const OtherProgram& program, const std::vector<std::string>& words) {
  std::string path = program_beside(std::string("paceline-") + program.command).string();
  std::vector<std::string> copies = words;
  std::vector<char*> arguments = {path.data()};
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  if (errno == ENOENT)
    return report_error(error(ErrorKind::kBadRequest, "{} is missing: {}", path, program.missing).because({"not-installed", path}));
  return report_error(error(ErrorKind::kIo, "cannot start {}: {}", path, std::strerror(errno)));
}

const OtherProgram* find(const std::string& command) {
  const auto* const found = std::ranges::find(kPrograms, command, &OtherProgram::command);
  return found == std::end(kPrograms) ? nullptr : found;
}

}  // namespace

std::optional<int> become_other_program(const std::vector<std::string>& words) {
  const std::size_t name = !words.empty() && words[0] == "help" ? 1 : 0;
  if (name >= words.size()) return std::nullopt;
  const OtherProgram* const program = find(words[name]);
  if (program == nullptr) return std::nullopt;
  return become(*program, words);
}

void add_other_programs(CLI::App& app, Chosen& chosen) {
  for (const OtherProgram& program : kPrograms) {
    app.add_subcommand(program.command, program.purpose)->callback([&program, &chosen] {
      chosen.run = [&program] { return become(program, {program.command}); };
    });
  }
}

}  // namespace paceline::cli
