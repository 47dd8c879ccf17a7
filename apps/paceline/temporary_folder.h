// A folder below the system's for temporary files; removed with everything in it.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"

namespace paceline::cli {

class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> make();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }  // short enough for the name of a socket in it

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace paceline::cli
