#include "paceline/beside.h"

#include <system_error>

namespace paceline::cli {

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::filesystem::path program_beside(const std::string& name) { return own_program().parent_path() / name; }

std::optional<std::filesystem::path> shared_beside(const std::filesystem::path& path) {
  std::error_code ignored;
  for (const char* folder : {"../../..", "../share/paceline"}) {
    const std::filesystem::path candidate = (own_program().parent_path() / folder / path).lexically_normal();
    if (std::filesystem::exists(candidate, ignored)) return candidate;
  }
  return std::nullopt;
}

std::optional<std::string> layer_table_of(const std::string& name) {
  const auto table = shared_beside(std::filesystem::path("bench/tables") / (name + ".json"));
  return table ? std::optional(table->string()) : std::nullopt;
}

}  // namespace paceline::cli
