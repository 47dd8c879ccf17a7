// The coordinator's side of checkpoints: finds the one to resume from, collects what servers and workers have written, makes a
// checkpoint of it with a manifest when all parts are there, and keeps the directory small. Files are written on a thread of its
// own.
//
// A part that could not be written makes its checkpoint void, with a warning; training goes on and the checkpoints before stay.
//
// Threads: begin() on any thread before the others; they belong to the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/task_thread.h"
#include "checkpoint/checkpoint.h"
#include "job/option.h"
#include "session/endpoint.h"

namespace paceline::checkpoint {

// How `job` goes on from `newest`, its last checkpoint, as a sentence.
std::string way_on(const job::JobSpec& job, const std::string& newest);

class CheckpointKeeper {
 public:
  struct Options {
    std::int32_t workers = 1, servers = 1;
    std::string release;
    std::size_t keep = 3;                          // checkpoints that stay in the directory, at least 1
    std::function<void(const std::string&)> warn;  // any thread
  };
  CheckpointKeeper(Files& files, Options options);

  // Everybody has agreed. Adds to `spec` where to resume from and, of a job without servers, what its collective operations
  // were chosen for when it began (`link-cost`, `merge`). kBadRequest when the directory holds another job's checkpoints, or an
  // earlier one's and --resume was not given; kIo when nothing can be written there.
  Status begin(job::JobSpec& spec, const wire::TensorTable& table);
  // After begin(): the job with everything that was decided since, which is what the checkpoints hold.
  void record(const job::JobSpec& spec) { model_.settings = to_settings(spec); }
  // A member's part is written, or is not.
  void on_saved(const wire::Seat& from, Iteration iteration, const std::string& part);
  // Blocks until everything is written.
  void finish();
  // Of a job that went through, after finish(): an error when there is no checkpoint of its last iteration.
  Status last_one() const;
  // The newest checkpoint, "" for none. After finish(), or for a message at any time.
  std::string newest() const;
  // How the job goes on from it, as a sentence. Requires one.
  std::string way_on() const { return checkpoint::way_on(job_, newest()); }

 private:
  struct Collected {
    std::map<std::string, PartSummary> parts;  // by name
    std::string failure;
  };
  Status resume(job::JobSpec& spec, const wire::TensorTable& table);
  Status expect_parts(const wire::TensorTable& table);
  void complete(const Manifest& manifest);
  void discard(Iteration iteration);
  void note_void(Iteration iteration, const std::string& why);
  std::string missing_parts() const;

  Status lock_directory();

  Files& files_;
  const Options options_;
  std::unique_ptr<DirectoryLock> lock_;  // of the directory: two jobs never write into the same one
  job::JobSpec job_;
  CheckpointSeal seal_;
  Manifest model_;  // of every checkpoint of this job, less iteration and parts
  std::set<std::string> expected_;
  std::map<Iteration, Collected> collected_;
  Iteration last_ = 0;  // of which anybody wrote a part
  std::string from_;    // the checkpoint that the job went on from
  mutable std::mutex mutex_;
  std::string newest_;  // guarded by mutex_, like the one below
  struct {
    Iteration iteration = 0;
    std::string why;
  } void_;  // the newest that could not be written
  std::unique_ptr<TaskThread> thread_;
};

}  // namespace paceline::checkpoint
