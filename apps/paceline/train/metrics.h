// `--metrics FILE`: one JSON object per line and iteration, means over the workers, written when the last of them has told. One thread.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "runtime/report.h"

namespace paceline::cli {

class MetricsFile {
 public:
  // Errors: kIo when the file cannot be written.
  static Result<std::unique_ptr<MetricsFile>> open(const std::string& path, std::int32_t workers);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // What a worker (or the reference, which speaks for all) says of one iteration.
  void on_progress(const runtime::Json& progress);

 private:
  MetricsFile(std::FILE* file, std::int32_t workers) : file_(file), workers_(workers) {}

  struct Sum {
    std::int32_t told = 0;
    double loss = 0, seconds = 0;
    runtime::Json accuracy;
  };
  std::FILE* file_;
  std::int32_t workers_;
  std::map<std::int64_t, Sum> open_iterations_;
};

}  // namespace paceline::cli
