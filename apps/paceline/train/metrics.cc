#include "paceline/train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace paceline::cli {

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string& path, std::int32_t workers) {
  constexpr mode_t kRights = 0666;
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kRights);
  const bool made = descriptor >= 0;
  if (!made) descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return error(ErrorKind::kBadRequest, "--metrics {} cannot be written: {}", path, std::strerror(errno));
  return std::unique_ptr<MetricsFile>(new MetricsFile(fdopen(descriptor, "w"), made ? path : "", workers));
}

MetricsFile::~MetricsFile() {
  std::fclose(file_);
  if (!begun_ && !made_.empty()) unlink(made_.c_str());
}

void MetricsFile::begin() {
  if (std::exchange(begun_, true)) return;
  [[maybe_unused]] const int emptied = ftruncate(fileno(file_), 0);  // a pipe or device has nothing to empty
}

void MetricsFile::on_progress(const runtime::Json& progress) {
  // What is not there, or not finite, is written as null.
  const auto number = [&](const char* key) {
    return progress.contains(key) && progress[key].is_number() ? progress[key].get<double>() : std::nan("");
  };
  const auto iteration = progress.value("iteration", std::int64_t{0});
  Sum& sum = open_iterations_[iteration];
  sum.loss += number("loss");
  sum.seconds += number("seconds");
  if (progress.contains("accuracy")) sum.accuracy = progress["accuracy"];
  if (++sum.told < workers_) return;
  begin();
  const runtime::Json line{
      {"iteration", iteration}, {"loss", sum.loss / sum.told}, {"seconds", sum.seconds / sum.told}, {"accuracy", sum.accuracy}};
  std::fprintf(file_, "%s\n", line.dump().c_str());
  std::fflush(file_);
  open_iterations_.erase(iteration);
}

}  // namespace paceline::cli
