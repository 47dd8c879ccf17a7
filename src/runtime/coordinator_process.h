// A job's coordinator with all that belongs to it: what is decided before the job begins, checkpoints, the timeline, the report.
// Threads: belongs to the transport's loop, but for ending().
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_keeper.h"
#include "runtime/coordinator.h"
#include "timeline/collector.h"

namespace paceline::runtime {

struct CoordinatorProcessOptions {
  CoordinatorOptions coordinator;  // its timeline is this object's matter
  std::string trace_file;          // of --trace; "": none. Of a job that went through, an error when it cannot be written
  // Fills in what the specification leaves open. Returns an object whose keys become the report's. Errors end the job.
  std::function<Result<report::Json>(job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering)> decide;
  std::function<void(const report::Json& progress)> on_progress;  // may be empty
  // Once, last: the job is over and everybody has left. ending() says how.
  std::function<void()> on_ended;
};

class CoordinatorProcess {
 public:
  // `transport` outlives it.
  CoordinatorProcess(transport::Transport& transport, CoordinatorProcessOptions options);

  // Listens. Errors: kIo when the address cannot be had.
  Result<transport::Address> start() { return coordinator_.start(); }
  // The first ends the job after the iteration, the second at once.
  void interrupt(const std::string& reason) { coordinator_.interrupt(reason); }
  // The job cannot go on, for a reason this process knows.
  void fail(const Status& reason) { coordinator_.fail(reason); }

  struct Ending {
    Status status;                       // of the whole job; names the last checkpoint when one can go on from it
    std::optional<report::Json> report;  // when every worker has reported
  };
  // After on_ended, when the loop runs no more. Blocks until the last checkpoint and the timeline are written.
  Ending ending();

 private:
  CoordinatorOptions options_of(const CoordinatorProcessOptions& options);
  CoordinatorCallbacks callbacks();
  Status on_agreed(job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering);
  // What the report says of it; null: there is none.
  Result<report::Json> write_timeline() const;

  CoordinatorProcessOptions options_;
  report::Json decided_ = report::Json::object();
  wire::Stop stop_;
  std::optional<report::Json> report_;
  timeline::TimelineCollector timeline_;
  checkpoint::CheckpointKeeper checkpoints_;
  Coordinator coordinator_;
};

}  // namespace paceline::runtime
