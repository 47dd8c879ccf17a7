#include "process/program_file.h"

#include <algorithm>
#include <filesystem>

#include <unistd.h>

namespace paceline {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

Status several_words(const std::string& words) {
  return error(ErrorKind::kBadRequest,
               "'{}' is a program with its arguments in one word, and there is no such program; leave the quotes out: {}", words,
               words)
      .because({"no-file", words});
}

}  // namespace

Status check_startable(const std::string& program, const std::string& path) {
  std::error_code ignored;
  const bool there = fs::exists(program, ignored);
  if (program.find('/') == std::string::npos) {
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find(':', begin), path.size());
      if (is_program(fs::path(path.substr(begin, end - begin)) / program)) return {};
      begin = end + 1;
    }
    if (const std::size_t blank = program.find(' ');
        blank != std::string::npos && check_startable(program.substr(0, blank), path).ok())
      return several_words(program);
    return error(ErrorKind::kBadRequest, "there is no program '{}' in PATH{}", program,
                 there && !fs::is_directory(program, ignored) ? "; write ./" + program + " for the file of this folder" : "")
        .because({"no-file", program});
  }
  if (is_program(program)) return {};
  if (const std::size_t blank = program.find(' '); blank != std::string::npos && is_program(program.substr(0, blank)))
    return several_words(program);
  const char* what = !there ? "there is no file '{}'"
                     : fs::is_directory(program, ignored)
                         ? "'{}' is a folder and no program"
                         : "'{}' is no program: nobody may execute it; chmod +x it, or start it by "
                           "what runs it, as python FILE";
  return error(ErrorKind::kBadRequest, fmt::runtime(what), program).because({"no-file", program});
}

}  // namespace paceline
