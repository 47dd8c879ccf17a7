#include "paceline/profile/cache.h"

#include <filesystem>

#include "base/new_file.h"
#include "paceline/environment.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"

namespace paceline::cli {

Json fingerprint() {
  const Machine machine = this_machine();
  return {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"libraries", PACELINE_LIBRARIES}};
}

std::string cache_path() {
  if (const auto folder = environment("PACELINE_CACHE")) return *folder + "/measurements.json";
  if (const auto folder = environment("XDG_CACHE_HOME")) return *folder + "/paceline/measurements.json";
  return environment("HOME").value_or(".") + "/.cache/paceline/measurements.json";
}

Cache load_cache() {
  const std::string path = cache_path();
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) return {};
  const auto content = read_text(system_files(), path, kLargestInput);
  if (!content.ok()) return {{}, fmt::format("the measurements cannot be read and are not used: {}", content.status().message())};
  const auto json = planner::parse_json(*content, path, planner::CaseIndex::kNone);
  if (!json.ok()) return {{}, fmt::format("the measurements are damaged and not used: {}", json.status().message())};
  if (json->is_object() && json->contains("fingerprint") && (*json)["fingerprint"] != fingerprint()) {
    return {{},
            fmt::format("the measurements in {} are of another machine or other libraries ({}; here {}): not used", path,
                        (*json)["fingerprint"].dump(), fingerprint().dump())};
  }
  auto measurements = planner::read_measurements(*json, path);
  if (!measurements.ok())
    return {{}, fmt::format("the measurements are damaged and not used: {}", measurements.status().message())};
  if (!json->contains("fingerprint"))
    return {{}, fmt::format("the measurements in {} do not say of which machine they are: not used", path)};
  return {std::move(measurements).value(), ""};
}

Status store_cache(const planner::Measurements& measurements) {
  const std::string path = cache_path();
  PACELINE_RETURN_IF_ERROR(system_files().make_directories(std::filesystem::path(path).parent_path().string()));
  const std::string content = to_json(measurements, fingerprint()).dump(1) + "\n";
  return write_file(system_files(), path, content);
}

}  // namespace paceline::cli
