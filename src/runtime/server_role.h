// What a parameter server does in a job, whichever process it is part of: serves its shard, writes its parts of checkpoints,
// reports. Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <memory>

#include "job/spec.h"
#include "paramserver/service/server_service.h"
#include "runtime/member.h"
#include "runtime/pace_record.h"
#include "runtime/report.h"
#include "runtime/state_checkpoints.h"
#include "runtime/task_thread.h"
#include "runtime/timeline_recorder.h"

namespace paceline::runtime {

class ServerRole {
 public:
  // Both outlive it.
  ServerRole(transport::Loop& loop, Member& member) : loop_(loop), member_(member) {}

  // The job has begun: from here on the sink takes messages. Errors: what is wrong with the plan or the checkpoint to resume from.
  // `recorder` outlives it; null: nothing is recorded.
  Result<paramserver::MessageSink*> begin(Rank rank, const job::JobSpec& settings, std::shared_ptr<const paramserver::JobPlan> plan,
                                          TimelineRecorder* recorder);
  void on_finish_at(Iteration last) { finish_at_ = last; }
  // The job is over: writes what is still to be written, reports, then `done`, once.
  void end(const wire::Stop& stop, std::function<void()> done);

 private:
  void report(const wire::Stop& stop);
  void predict(sync::BarrierQuestion question);

  transport::Loop& loop_;
  Member& member_;
  TimelineRecorder* recorder_ = nullptr;
  Rank rank_;
  Iteration finish_at_ = 0;           // 0: nobody asked to stop
  bool uneven_ = false;               // workers do different numbers of iterations
  std::unique_ptr<PaceRecord> pace_;  // of the pacing server
  std::unique_ptr<paramserver::ServerService> service_;
  std::unique_ptr<StateCheckpoints> checkpoints_;  // none without --checkpoint
  std::unique_ptr<TaskThread> predicting_;         // since the first barrier's question
};

}  // namespace paceline::runtime
