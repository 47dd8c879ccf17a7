// A parameter server as part of a process: joins the job, serves, and reports. Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <memory>

#include "paramserver/service/server_service.h"
#include "runtime/member.h"
#include "runtime/report.h"
#include "runtime/server_checkpoints.h"

namespace paceline::runtime {

class ServerProcess final : public MemberEvents {
 public:
  // `ended`: once, last, when the job is over for this server and its goodbyes are said.
  ServerProcess(transport::Transport& transport, MemberOptions options, std::function<void(const wire::Stop&)> ended);
  Status start() { return member_.start(); }
  // The process was asked to end by itself (a signal).
  void interrupt(const std::string& reason) { member_.fail(Status(ErrorKind::kCancelled, reason)); }

  Result<paramserver::MessageSink*> on_welcome(const wire::Welcome& welcome) override;
  void on_connected() override {}
  void on_park() override {}
  void on_finish_at(Iteration last) override;
  void on_end(const wire::Stop& stop) override;

 private:
  void leave(const wire::Stop& stop);

  transport::Transport& transport_;
  std::function<void(const wire::Stop&)> ended_;
  Member member_;
  std::int32_t rank_ = 0;
  Iteration finish_at_ = 0;  // 0: nobody asked to stop
  std::unique_ptr<paramserver::ServerService> service_;
  std::unique_ptr<ServerCheckpoints> checkpoints_;  // none without --checkpoint
};

}  // namespace paceline::runtime
