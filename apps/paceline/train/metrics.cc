#include "paceline/train/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"

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
  return std::unique_ptr<MetricsFile>(
      new MetricsFile(descriptor, fmt::format("{} {}", option, path), made ? path : "", workers, lines, earlier));
}

MetricsFile::~MetricsFile() {
  close(file_);
  if (!begun_ && !made_.empty()) unlink(made_.c_str());
}

void MetricsFile::begin() {
  if (std::exchange(begun_, true)) return;
  // A pipe or device has nothing to empty, and no end.
  [[maybe_unused]] const auto done = earlier_ == Earlier::kKept ? lseek(file_, 0, SEEK_END) : ftruncate(file_, 0);
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
  constexpr std::size_t kMostPending = 32 << 20;
  if (!problem_.ok()) return;
  begin();
  pending_ += line.dump() + "\n";
  write_pending();
  if (pending_.size() > kMostPending) fail("nobody reads it fast enough");
}

void MetricsFile::write_pending() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t written = ::write(file_, pending_.data() + done, pending_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) return fail(std::strerror(errno));
    done += static_cast<std::size_t>(written);
  }
  pending_.erase(0, done);
}

void MetricsFile::fail(const char* why) {
  pending_.clear();
  problem_ = error(ErrorKind::kIo, "{} cannot be written: {}; lines are missing", name_, why);
  say(stderr, fmt::format("paceline: warning: {}, training goes on\n", problem_.message()));
}

const Status& MetricsFile::finish(Duration patience) {
  const SystemClock clock;
  const TimePoint end = clock.now() + patience;
  while (!pending_.empty() && clock.now() < end) {
    pollfd room{file_, POLLOUT, 0};
    const Duration left = std::max<Duration>(end - clock.now(), {});
    poll(&room, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    write_pending();
  }
  if (!pending_.empty()) fail("nobody reads it");
  return problem_;
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
