// What a parameter server does in a job, whichever process it is part of: serves its shard, writes its parts of checkpoints,
// reports. Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <memory>

#include "base/task_thread.h"
#include "checkpoint/state_checkpoints.h"
#include "job/spec.h"
#include "paramserver/service/server_service.h"
#include "report/pace_record.h"
#include "report/report.h"
#include "runtime/member.h"
#include "timeline/recorder.h"

namespace paceline::runtime {

class ServerRole {
 public:
  // Both outlive it.
  ServerRole(transport::Loop& loop, Member& member) : loop_(loop), member_(member) {}

  // The job has begun: from here on the end takes messages. Errors: what is wrong with the plan or the checkpoint to resume from.
  // `recorder` outlives it; null: nothing is recorded.
  Result<session::ChannelEnd*> begin(Rank rank, const job::JobSpec& settings, std::shared_ptr<const job::Plan> plan,
                                     timeline::TimelineRecorder* recorder);
  void on_finish_at(Iteration last) { finish_at_ = last; }
  // The job is over: writes what is still to be written, reports, then `done`, once.
  void end(const wire::Stop& stop, std::function<void()> done);

 private:
  void report(const wire::Stop& stop);
  void predict(sync::BarrierQuestion question);

  transport::Loop& loop_;
  Member& member_;
  timeline::TimelineRecorder* recorder_ = nullptr;
  Rank rank_;
  Iteration finish_at_ = 0;                   // 0: nobody asked to stop
  bool uneven_ = false;                       // workers do different numbers of iterations
  std::unique_ptr<report::PaceRecord> pace_;  // of the pacing server
  std::unique_ptr<paramserver::ServerService> service_;
  std::unique_ptr<checkpoint::StateCheckpoints> checkpoints_;  // none without --checkpoint
  std::unique_ptr<TaskThread> predicting_;                     // since the first barrier's question
};

}  // namespace paceline::runtime
