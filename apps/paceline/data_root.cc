#include "paceline/data_root.h"

#include <system_error>

#include "paceline/beside.h"
#include "paceline/environment.h"

namespace paceline::cli {

std::filesystem::path data_root() {
  if (const auto given = environment("PACELINE_DATA")) return *given;
  std::error_code ignored;
  const std::filesystem::path here = ".venv/data";
  if (std::filesystem::is_directory(here, ignored)) return here;
  for (const char* path : {".venv/data", "data"}) {
    if (const auto beside = shared_beside(path)) return *beside;
  }
  return here;
}

}  // namespace paceline::cli
