#include "paceline/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace paceline::cli {

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::make() {
  std::error_code problem;
  const auto parent = std::filesystem::temp_directory_path(problem);  // TMPDIR may name what is not there
  if (problem) return error(ErrorKind::kIo, "no folder for temporary files: {}; set TMPDIR to one", problem.message());
  std::string name = (parent / "paceline-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return error(ErrorKind::kIo, "no folder {}: {}", name, std::strerror(errno));
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(name));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace paceline::cli
