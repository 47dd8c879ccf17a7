// What every node of a job can do, whether it is its coordinator, a server or a worker.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/job_key.h"
#include "job/spec.h"
#include "library/handles.h"
#include "runtime/member.h"
#include "transport/transport.h"

namespace paceline::library {

class Node : public Object {
 public:
  static constexpr const char* kType = "node";
  const char* type() const override { return kType; }

  virtual paceline_info info() const = 0;
  // False: the limit has passed. Errors: why the job has failed.
  virtual Result<bool> finish(Duration limit) = 0;
  virtual void fail(const Status& reason) = 0;
  virtual void interrupt() = 0;
};

// Threads that are made while it lives block all signals, which are the program's matter.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// A node that lives on a loop of a thread of its own, from which nobody waits for anything but its end.
class HostedNode : public Node {
 public:
  Result<bool> finish(Duration limit) override;
  void stop() override;
  void end(Duration limit) override;

 protected:
  explicit HostedNode(std::unique_ptr<transport::Transport> transport) : transport_(std::move(transport)) {}
  // The thread serves the loop until it is stopped, then calls `ending`, which says how the job ended.
  void start(std::function<Status()> ending);
  // What this node does about its being closed before the job is over. On the loop.
  virtual void leave() = 0;
  transport::Transport& transport() const { return *transport_; }
  void post(std::function<void()> work) { transport_->loop().post(std::move(work)); }
  bool ended() const;

 private:
  std::unique_ptr<transport::Transport> transport_;
  mutable std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  std::optional<Status> verdict_;
  bool closing_ = false;
  std::thread thread_;
};

// A place as the runtime has it. Errors: kBadRequest naming the field.
Result<runtime::MemberOptions> member_options(const paceline_place& place, const job::JobSpec& spec);
Result<transport::Address> address_of(const char* text, const char* field);
// Where a node listens whose `bind` may be NULL (transport::own_place). Errors: kBadRequest naming the field.
Result<transport::Address> own_place_of(const char* bind, const char* field, const transport::Address& meeting);
// The key of a member's connections.
Result<std::optional<JobKey>> member_key(const paceline_place& place, const runtime::MemberOptions& member);
// The key of a process's connections, by fields of its struct that may be NULL; nothing: in the clear. Errors as on the command
// line.
Result<std::optional<JobKey>> key_of(const char* job_key_file, const char* security, std::span<const transport::Address> places);

}  // namespace paceline::library
