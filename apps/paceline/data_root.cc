#include "paceline/data_root.h"

#include <system_error>

#include "paceline/environment.h"

namespace paceline::cli {

std::filesystem::path data_root() {
  if (const auto given = environment("PACELINE_DATA")) return *given;
  std::error_code ignored;
  const std::filesystem::path here = ".venv/data";
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  if (std::filesystem::is_directory(here, ignored)) return here;
  if (!program.empty()) {
    for (const char* beside : {"../../../.venv/data", "../share/paceline/data"}) {
      const std::filesystem::path candidate = (program / beside).lexically_normal();
      if (std::filesystem::is_directory(candidate, ignored)) return candidate;
    }
  }
  return here;
}

}  // namespace paceline::cli
