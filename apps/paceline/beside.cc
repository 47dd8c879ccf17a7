#include "paceline/beside.h"

#include <cctype>
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
  const auto letters = [](const std::string& text) {
    std::string kept;
    for (const char one : text) {
      if (std::isalnum(static_cast<unsigned char>(one)) != 0) kept += static_cast<char>(std::tolower(one));
    }
    return kept;
  };
  const auto folder = shared_beside("bench/tables");
  if (!folder || name.find('/') != std::string::npos) return std::nullopt;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(*folder, ignored)) {
    if (file.path().extension() == ".json" && letters(file.path().stem().string()) == letters(name)) return file.path().string();
  }
  return std::nullopt;
}

std::string file_or_layer_table(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return name;
  return layer_table_of(name).value_or(name);
}

}  // namespace paceline::cli
