#include "paceline/train/data_check.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "paceline/data_root.h"
#include "trainer/data/open.h"

namespace paceline::cli {

Status check_data_set_name(const std::string& spec) {
  const std::string name = spec.substr(0, spec.find(':'));
  std::vector<std::string> names;
  for (const trainer::data::Kind& kind : trainer::data::kinds()) {
    if (kind.name == name) return {};
    names.push_back(kind.name);
  }
  return error(ErrorKind::kBadRequest, "--dataset knows no '{}'{}; 'paceline datasets' lists them", name, suggestion(name, names))
      .because({"unknown", "--dataset"});
}

Status check_data_at_hand(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  const auto is_whole = [&](const trainer::data::Kind& kind) { return kind.name == spec && kind.argument.empty(); };
  if (std::ranges::any_of(trainer::data::kinds(), is_whole)) return {};
  const std::string file = colon == std::string::npos ? "" : spec.substr(colon + 1, spec.find(',', colon) - colon - 1);
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return {};
  return trainer::data::open(spec, data_root()).status();
}

}  // namespace paceline::cli
