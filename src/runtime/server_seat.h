// What a parameter server does in a job: serves its shard, writes its parts of checkpoints, reports. Threads: belongs to the
// transport's loop, but for restore().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/task_thread.h"
#include "checkpoint/state_checkpoints.h"
#include "paramserver/service/server_service.h"
#include "report/pace_record.h"
#include "report/report.h"
#include "runtime/node.h"

namespace paceline::runtime {

class ServerSeat final : public SeatHandler {
 public:
  // `node` outlives it.
  explicit ServerSeat(Node& node) : node_(node) {}

  // SeatHandler
  wire::Role role() const override { return wire::Role::kServer; }
  Result<session::ChannelEnd*> begin(const BegunJob& job) override;
  Status restore() override;
  void on_finish_at(Iteration last) override { finish_at_ = last; }
  void end(const wire::Stop& stop, std::function<void()> done) override;

 private:
  void report(const wire::Stop& stop);
  void predict(sync::BarrierQuestion question);

  Node& node_;
  Rank rank_;
  job::Saving saving_;  // the checkpoint to go on from
  checkpoint::CheckpointSeal seal_;
  Iteration finish_at_ = 0;  // 0: nobody asked to stop
  bool uneven_ = false;      // workers do different numbers of iterations
  wire::EventFan events_;
  std::unique_ptr<report::PaceRecord> pace_;  // of the pacing server
  std::unique_ptr<paramserver::ServerService> service_;
  std::unique_ptr<checkpoint::StateCheckpoints> checkpoints_;  // none without --checkpoint
  std::unique_ptr<TaskThread> predicting_;                     // since the first barrier's question
};

}  // namespace paceline::runtime
