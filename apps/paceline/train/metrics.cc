#include "paceline/train/metrics.h"

#include <cerrno>
#include <cstring>

namespace paceline::cli {

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string& path, std::int32_t workers) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return error(ErrorKind::kIo, "--metrics {}: {}", path, std::strerror(errno));
  return std::unique_ptr<MetricsFile>(new MetricsFile(file, workers));
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

void MetricsFile::on_progress(const runtime::Json& progress) {
  const auto number = [&](const char* key) { return progress.contains(key) && progress[key].is_number() ? progress[key].get<double>() : 0.0; };
  const auto iteration = static_cast<std::int64_t>(number("iteration"));
  Sum& sum = open_iterations_[iteration];
  sum.loss += number("loss");
  sum.seconds += number("seconds");
  if (progress.contains("accuracy")) sum.accuracy = progress["accuracy"];
  if (++sum.told < workers_) return;
  const runtime::Json line{{"iteration", iteration}, {"loss", sum.loss / sum.told}, {"seconds", sum.seconds / sum.told}, {"accuracy", sum.accuracy}};
  std::fprintf(file_, "%s\n", line.dump().c_str());
  std::fflush(file_);
  open_iterations_.erase(iteration);
}

}  // namespace paceline::cli
