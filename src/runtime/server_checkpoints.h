// A server's part of checkpoints: copies the state when an iteration is complete and writes the copy on a thread of its own, so
// that the loop goes on. When the disk is slower than the checkpoints come, the server holds updates back until it has caught up:
// at most two copies are in memory, and no checkpoint is left out.
//
// Threads: belongs to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "paramserver/service/server_service.h"
#include "runtime/checkpoint.h"
#include "runtime/job_settings.h"
#include "runtime/task_thread.h"

namespace paceline::runtime {

class ServerCheckpoints {
 public:
  // `on_saved`, on the loop, once per save() in their order: what to tell the coordinator. `files`, `loop` and `service` outlive
  // it.
  ServerCheckpoints(Files& files, const JobSettings& settings, transport::Loop& loop, paramserver::ServerService& service,
                    std::function<void(Iteration, const PartSummary&)> on_saved);
  ~ServerCheckpoints();

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
  transport::Loop& loop_;
  paramserver::ServerService& service_;
  std::function<void(Iteration, const PartSummary&)> on_saved_;
  std::function<void()> done_;
  Iteration complete_ = 0, saved_ = 0;
  int pending_ = 0;                                             // saves that are not written
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what the thread posts
  TaskThread thread_;
};

// Fills the server's values and optimizer state from the checkpoint in `folder`. Errors: kCorrupt, kIo, kBadRequest naming file and
// tensor.
Status restore_server(Files& files, const std::string& folder, paramserver::ServerCore& core);

}  // namespace paceline::runtime
