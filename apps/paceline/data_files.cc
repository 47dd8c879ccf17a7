#include "paceline/data_files.h"

#include "base/wrong.h"
#include "paceline/data_root.h"
#include "trainer/data/sources.h"

namespace paceline::cli {

Status check_no_data(const std::string& spec, NamedFiles written, const char* asked) {
  const std::filesystem::path root = data_root();
  for (const auto& [option, path] : written) {
    if (!trainer::data::is_file_of(spec, root, path)) continue;
    const std::string subject =
        asked == nullptr ? fmt::format("{} {}", option, path) : fmt::format("{} and {} name one file: {}", asked, option, path);
    return wrong("{} is part of the data set {}; give another name", subject, spec).because({"contradiction", option});
  }
  return {};
}

}  // namespace paceline::cli
