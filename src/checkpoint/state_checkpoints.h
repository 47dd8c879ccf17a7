// Checkpoints of values and optimizer state by the process that makes the updates, a server or, without servers, one of the
// workers: copies the state when an iteration is complete, and writes the copy, on a thread of its own, so that the loop goes on.
// Updates are held back until the copy is made. When the disk is slower than the checkpoints come, that is when it has caught up:
// there is one copy in memory, and no checkpoint is left out.
//
// Threads: belongs to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/task_thread.h"
#include "checkpoint/checkpoint.h"
#include "job/option.h"
#include "transport/transport.h"

namespace paceline::checkpoint {

// A part of a checkpoint before it is written.
struct StateCopy {
  PartHead head;
  std::vector<float> numbers;  // of all arrays, one behind the other: values, then planes of optimizer state
};

// Whoever holds the state.
struct StateSource {
  // On the loop: holds updates back until release(). What it returns copies the state meanwhile, on any thread; the caller fills in
  // the iteration.
  std::function<std::function<StateCopy()>()> hold;
  std::function<void()> release;  // on the loop
  bool has_state = true;
};

class StateCheckpoints {
 public:
  // `on_saved`, on the loop, once per save() in their order: what to tell the coordinator. `files`, `loop` and the source outlive
  // it.
  StateCheckpoints(Files& files, const job::JobSpec& settings, CheckpointSeal seal, transport::Loop& loop, StateSource source,
                   std::function<void(Iteration, const PartSummary&)> on_saved);
  ~StateCheckpoints();

  // Saves when a checkpoint is due.
  void on_iteration_complete(Iteration iteration);
  // The job ends in order. Saves the last complete iteration, if that is no checkpoint yet; then `done`, when all is written.
  void finish(std::function<void()> done);
  Iteration complete() const { return complete_; }

 private:
  void save();
  void written(Iteration iteration, const PartSummary& summary);

  Files& files_;
  const std::string directory_;
  const std::int64_t every_;
  const CheckpointSeal seal_;
  transport::Loop& loop_;
  StateSource source_;
  std::function<void(Iteration, const PartSummary&)> on_saved_;
  std::function<void()> done_;
  Iteration complete_ = 0, saved_ = 0;
  int pending_ = 0;                                             // saves that are not written
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what the thread posts
  TaskThread thread_;
};

}  // namespace paceline::checkpoint
