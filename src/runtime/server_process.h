// A process that is a parameter server: joins the job, serves, and reports. Threads: belongs to the transport's loop.
#pragma once

#include <functional>

#include "runtime/server_role.h"

namespace paceline::runtime {

class ServerProcess final : public MemberEvents {
 public:
  // `ended`: once, last, when the job is over for this server and its goodbyes are said.
  ServerProcess(transport::Transport& transport, MemberOptions options, std::function<void(const wire::Stop&)> ended);
  Status start() { return member_.start(); }
  // The process was asked to end by itself (a signal).
  void interrupt(const std::string& reason) { member_.interrupt(Status(ErrorKind::kCancelled, reason)); }

  // The job cannot go on, for a reason this process knows.
  void fail(const Status& reason) { member_.fail(reason); }

  Result<JobStart> on_welcome(const wire::Welcome& welcome) override;
  void on_connected() override {}
  void on_park() override {}
  void on_finish_at(Iteration last) override { role_.on_finish_at(last); }
  void on_worker_done(Rank, Iteration) override {}
  void on_end(const wire::Stop& stop) override;

 private:
  std::function<void(const wire::Stop&)> ended_;
  std::unique_ptr<timeline::TimelineRecorder> recorder_;  // with --trace
  Member member_;
  ServerRole role_;
};

}  // namespace paceline::runtime
