// `--metrics FILE`: one JSON object per line. In BSP one for each iteration, means over the workers, written when the last of them
// has told; where workers do different numbers of iterations, one for each iteration of a worker, with its rank. `--pace FILE`:
// what the pacing server tells (report/pace_record.h). A job that does not come to its first line leaves no file behind and an
// older one as it was. A device is written to, and a pipe that somebody reads; nobody waits for who reads it. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "paceline/train/request.h"
#include "report/report.h"

namespace paceline::cli {

class MetricsFile {
 public:
  enum class Lines { kPerIteration, kPerWorker };
  enum class Earlier { kDropped, kKept };  // lines that the file has already
  // `option`: for messages, "--metrics". `workers`: how many tell of an iteration. Errors: kBadRequest when the file cannot be
  // written.
  static Result<std::unique_ptr<MetricsFile>> open(const char* option, const std::string& path, std::int32_t workers, Lines lines,
                                                   Earlier earlier);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // What a worker (or the reference, which speaks for all) says of one iteration.
  void on_progress(const report::Json& progress);
  void write(const report::Json& line);
  // No more lines come. Waits no longer than this for the reader of a pipe to take those that are left, and says why lines are
  // missing. The first that cannot be written has warned, and was the last that was tried.
  const Status& finish(Duration patience);

 private:
  MetricsFile(int file, std::string name, std::string made, std::int32_t workers, Lines lines, Earlier earlier)
      : file_(file), name_(std::move(name)), made_(std::move(made)), workers_(workers), lines_(lines), earlier_(earlier) {}
  void begin();
  void write_pending();
  void fail(const char* why);

  struct Sum {
    std::int32_t told = 0;
    double loss = 0, seconds = 0, computing = 0, waiting_barrier = 0, waiting_parameters = 0;
    report::Json accuracy;
  };
  int file_;
  std::string pending_;  // lines that a pipe had no room for
  std::string name_;     // for messages: "--metrics FILE"
  Status problem_;
  std::string made_;  // the path when the file is new
  bool begun_ = false;
  std::int32_t workers_;
  Lines lines_;
  Earlier earlier_;
  std::map<std::int64_t, Sum> open_iterations_;
};

// The files of --metrics and --pace; null: not asked for. Errors: as MetricsFile::open.
Result<std::unique_ptr<MetricsFile>> open_metrics(const TrainRequest& request);
Result<std::unique_ptr<MetricsFile>> open_pace(const TrainRequest& request);

}  // namespace paceline::cli
