#include "paceline/option_files.h"

#include <filesystem>
#include <map>
#include <optional>

#include "base/new_file.h"
#include "base/utf8.h"
#include "base/wrong.h"

namespace paceline::cli {

std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty; give a name, or leave the option out" : std::string();
}

// The messages of files begin with the path.
Result<std::string> read_option(const char* option, const std::string& path, Bytes limit) {
  auto text = read_text(system_files(), path, limit);
  return text.ok() ? std::move(text)
                   : wrong("{} {}", option, text.status().message()).because(cause_of(text.status())).because({"format", option});
}

Status check_output_name(const char* option, const std::string& path) {
  if (path != "-") return {};
  return wrong("{} - names no file: standard output has the report; give a name, or ./-", option).because({"illegal", option});
}

Status check_output_names(NamedFiles written, NamedFiles read) {
  namespace fs = std::filesystem;
  std::map<fs::path, const char*> options;
  // The file itself; nothing for a device or a pipe.
  const auto file_of = [](const std::string& path) -> std::optional<fs::path> {
    std::error_code problem;
    const fs::path file = path.empty() ? fs::path() : fs::weakly_canonical(path, problem);
    if (path.empty() || problem || (fs::exists(file, problem) && !fs::is_regular_file(file, problem))) return std::nullopt;
    return file;
  };
  for (const auto& [option, path] : read)
    if (const auto file = file_of(path)) options.emplace(*file, option);
  for (const auto& [option, path] : written) {
    PACELINE_RETURN_IF_ERROR(check_output_name(option, path));
    const auto file = file_of(path);
    if (!file) continue;
    const auto [other, is_new] = options.emplace(*file, option);
    if (!is_new)
      return wrong("{} and {} name one file, {}; give each its own", other->second, option, path)
          .because({"contradiction", option});
  }
  return {};
}

Status check_output(const char* option, const std::string& path) {
  PACELINE_RETURN_IF_ERROR(check_output_name(option, path));
  if (!is_utf8(path)) return wrong("{} {}: its name is no UTF-8 text; rename it", option, path).because({"illegal", option});
  const Status status = path.empty() ? Status() : can_write(system_files(), path);
  return status.ok()
             ? status
             : wrong("{} {}; give the name of a file that can be written", option, status.message()).because(cause_of(status));
}

}  // namespace paceline::cli
