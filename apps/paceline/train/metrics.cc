#include "paceline/train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace paceline::cli {

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const char* option, const std::string& path, std::int32_t workers,
                                                       Lines lines, Earlier earlier) {
  constexpr mode_t kRights = 0666;
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kRights);
  const bool made = descriptor >= 0;
  // Nobody waits for somebody to read a pipe.
  if (!made) descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0 && errno == ENOENT) descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kRights);  // by a link
  if (descriptor < 0) {
    const int why = errno;
    return error(ErrorKind::kBadRequest, "{} {} cannot be written: {}", option, path,
                 why == ENXIO ? "it is a socket, or a pipe that nobody reads" : std::strerror(why))
        .because({why == ENOENT || why == ENOTDIR ? "no-file" : "", option});
  }
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return std::unique_ptr<MetricsFile>(
      new MetricsFile(fdopen(descriptor, "w"), fmt::format("{} {}", option, path), made ? path : "", workers, lines, earlier));
}

MetricsFile::~MetricsFile() {
  std::fclose(file_);
  if (!begun_ && !made_.empty()) unlink(made_.c_str());
}

void MetricsFile::begin() {
  if (std::exchange(begun_, true)) return;
  // A pipe or device has nothing to empty, and no end.
  [[maybe_unused]] const auto done = earlier_ == Earlier::kKept ? std::fseek(file_, 0, SEEK_END) : ftruncate(fileno(file_), 0);
}

void MetricsFile::on_progress(const report::Json& progress) {
  // What is not there, or not finite, is written as null.
  const auto number = [&](const char* key) {
    return progress.contains(key) && progress[key].is_number() ? progress[key].get<double>() : std::nan("");
  };
  const auto iteration = progress.value("iteration", std::int64_t{0});
  if (lines_ == Lines::kPerWorker) {
    report::Json line{{"rank", progress.value("rank", 0)}, {"iteration", iteration}};
    for (const char* key : {"loss", "seconds", "computing", "waiting_barrier", "waiting_parameters", "accuracy"})
      line[key] = number(key);
    return write(line);
  }
  Sum& sum = open_iterations_[iteration];
  sum.loss += number("loss");
  sum.seconds += number("seconds");
  sum.computing += number("computing");
  sum.waiting_barrier += number("waiting_barrier");
  sum.waiting_parameters += number("waiting_parameters");
  if (progress.contains("accuracy")) sum.accuracy = progress["accuracy"];
  if (++sum.told < workers_) return;
  write({{"iteration", iteration},
         {"loss", sum.loss / sum.told},
         {"seconds", sum.seconds / sum.told},
         {"computing", sum.computing / sum.told},
         {"waiting_barrier", sum.waiting_barrier / sum.told},
         {"waiting_parameters", sum.waiting_parameters / sum.told},
         {"accuracy", sum.accuracy}});
  open_iterations_.erase(iteration);
}

void MetricsFile::write(const report::Json& line) {
  if (!problem_.ok()) return;
  begin();
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0) return;
  problem_ = error(ErrorKind::kIo, "{} cannot be written: {}; lines are missing", name_, std::strerror(errno));
  fmt::print(stderr, "paceline: warning: {}, training goes on\n", problem_.message());
}

namespace {

// A job that goes on goes on with its lines.
MetricsFile::Earlier earlier_of(const TrainRequest& request) {
  return request.settings.saving.resume ? MetricsFile::Earlier::kKept : MetricsFile::Earlier::kDropped;
}

}  // namespace

Result<std::unique_ptr<MetricsFile>> open_metrics(const TrainRequest& request) {
  if (request.metrics_file.empty()) return std::unique_ptr<MetricsFile>();
  using Lines = MetricsFile::Lines;
  const auto lines = request.settings.sync.kind == sync::SyncKind::kBsp ? Lines::kPerIteration : Lines::kPerWorker;
  return MetricsFile::open("--metrics", request.metrics_file, request.reference ? 1 : request.workers, lines, earlier_of(request));
}

Result<std::unique_ptr<MetricsFile>> open_pace(const TrainRequest& request) {
  if (request.pace_file.empty()) return std::unique_ptr<MetricsFile>();
  return MetricsFile::open("--pace", request.pace_file, request.workers, MetricsFile::Lines::kPerWorker, earlier_of(request));
}

}  // namespace paceline::cli
