// A process's membership in a job: joins at the coordinator, connects to the servers, says who is at the ends of which channel, and
// learns how the job ends. The same for workers and servers; what a role does with messages is its ChannelEnd, which they reach
// without passing here. In a job without servers the workers listen and connect to each other, and have both ends of what passes. A
// member may have several seats: then it has an end for each, one session with each other process whatever passes between them, so
// one egress queue and one window for the link, and its seats talk through memory.
//
// Every job ends for a member with exactly one on_end: the coordinator's verdict, or, when the coordinator itself is gone, what the
// member knows. A member that fails tells the coordinator and waits up to a second for the verdict, so that all processes say the
// same. One that only hears another's goodbye, or of it from a third, waits that second first, since the other has said why; then
// it tells that it lost it, and waits for the verdict as long as for a silent coordinator.
//
// Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/task_thread.h"
#include "report/report.h"
#include "runtime/peers.h"
#include "session/channels.h"
#include "session/endpoint.h"
#include "transport/transport.h"
#include "wire/control.h"
#include "wire/timeline.h"

namespace paceline::runtime {

struct MemberOptions {
  wire::Roles roles = wire::Role::kWorker;
  wire::Role hub = wire::Role::kServer;  // of the job (wire/seat.h)
  std::int32_t wanted_rank = -1;         // -1: any
  std::int32_t world_workers = 0;        // what this process expects; 0: does not know
  transport::Address coordinator;
  transport::Address listen{"127.0.0.1", 0};  // with a seat of the hub
  Duration silence_deadline = std::chrono::seconds(10);
  Duration coordinator_deadline = std::chrono::seconds(30);  // to reach it
  Duration join_deadline = std::chrono::seconds(30);         // to reach peers
  std::string release;
  std::uint64_t seed = 1;      // differs between processes
  wire::TensorTable table;     // of a worker
  wire::Settings settings;     // of a worker
  wire::LayerSeconds seconds;  // of a worker that has measured them
  // What this process's clock shows, in nanoseconds, at a moment: for the timeline. Empty: the moment itself. Tests give clocks
  // that go wrong.
  std::function<std::int64_t(TimePoint)> clock;
};

// What a member needs to know of a job that has begun.
struct JobStart {
  std::map<wire::Role, session::ChannelEnd*> ends;  // of the member's seats
  scheduling::EgressRules egress;
  wire::EventSink* events = nullptr;  // hears of messages; outlives the member
  // What takes long, as reading a checkpoint does, on a thread of its own; the member is ready when it has returned, and an error
  // fails the job. Empty: nothing does.
  std::function<Status()> prepare = {};
};

// What a member hears of its job.
class MemberEvents {
 protected:
  ~MemberEvents() = default;
  // The job has begun. Makes the ends of the member's seats; an error fails the job. Server: it is ready when this returns, and
  // what it wants prepared is.
  virtual Result<JobStart> on_welcome(const wire::Welcome& welcome) = 0;
  // Worker: every server (without servers: every other worker) is connected and ready. Server: never called.
  virtual void on_connected() = 0;
  virtual void on_park() = 0;                     // worker: stand still at the end of the iteration, then MessageKind::kParked
  virtual void on_finish_at(Iteration last) = 0;  // `last` is the last iteration
  virtual void on_worker_done(Rank worker, Iteration last) = 0;  // worker: another one computes nothing after `last`
  // worker: another one, or this one itself, asks how far this one is (`reached` 0), or answers (Member::send_reached)
  virtual void on_reached(Rank who, Iteration reached) = 0;
  virtual void on_end(const wire::Stop& stop) = 0;  // once, last
};

class Member : public session::EndpointHandler, protected MemberEvents {
 public:
  ~Member() override;

  // Begins to join. Errors: kIo when a server cannot listen.
  Status start();
  // What this process cannot go on from. The first reason stays. kCancelled: somebody's goodbye.
  void fail(const Status& reason);
  // Somebody wants this process to end: the job ends after the iteration that it is in.
  void ask_to_end();
  // And does not want to wait for that.
  void interrupt(const Status& reason);
  // To the coordinator, if it is still there.
  void send_control(wire::MessageKind kind, Iteration iteration, std::vector<std::byte> payload = {}, std::uint8_t flags = 0);
  void send_progress(const std::string& json);
  // Answers worker `asker`: this one computes the gradients of iteration `reached`. 0: asks all workers.
  void send_reached(Rank asker, Iteration reached);
  // Of the seat; a worker's last iteration was `last`.
  void send_report(wire::Role seat, const std::string& json, Iteration last = 0);
  void send_saved(wire::Role seat, Iteration iteration, const std::string& json);
  // What was recorded; before the seat's report.
  void send_timeline(const std::vector<wire::TimelinePart>& parts);
  // Blocks until nothing is being prepared any more; what was, uses the ends. Where the loop does not run.
  void wait_prepared() { preparing_.reset(); }
  // Says goodbye when all is delivered, at most `limit` later; then `done`.
  void leave(Duration limit, std::function<void()> done);

  // For the report.
  report::LinkReport link() const;
  double values_wait() const;  // as in report::ServerReport
  bool holds(wire::Role role) const { return options_.roles.hold(role); }
  bool holds_several() const { return options_.roles.list().size() > 1; }
  std::int64_t reading(TimePoint at) const { return options_.clock ? options_.clock(at) : at.time_since_epoch().count(); }

  // EndpointHandler
  Status on_hello(const wire::PeerName& name) override;
  void on_peer(session::PeerId peer, const wire::PeerName& name) override;
  Result<std::span<std::byte>> on_message_begin(session::PeerId peer, const wire::MessageHead& head) override;
  void on_message(session::PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(session::PeerId, wire::Channel, std::uint64_t) override {}
  std::string about(const wire::MessageHead& head) const override;
  void on_peer_lost(session::PeerId peer, const wire::PeerName& name, const Status& reason) override;

 protected:
  // Who derives from it hears the events. The transport outlives it.
  Member(transport::Transport& transport, MemberOptions options);
  // For the ends: what they send there reaches the job's peers.
  session::Sender& channels() { return endpoint_->channels(); }
  transport::Loop& own_loop() { return transport_.loop(); }

 private:
  void join();
  Status check_takes(session::PeerId peer, wire::MessageKind kind) const;
  void on_control(const wire::MessageHead& head, std::span<const std::byte> payload);
  void take_welcome(const wire::Welcome& welcome);
  void on_prepared(const Status& status);
  void on_stop(const wire::Stop& stop);
  void connect_to_peers(const wire::Welcome& welcome);
  void check_connected();
  void tell_failure();
  void tell_clock(std::uint32_t question);
  bool listens() const { return holds(options_.hub); }
  void open_channels(const std::map<wire::Role, session::ChannelEnd*>& ends);
  void meet(session::PeerId peer, const wire::PeerName& name);

  transport::Transport& transport_;
  MemberOptions options_;
  std::unique_ptr<session::Endpoint> endpoint_;
  std::string listening_;
  Rank rank_{-1};
  Peers peers_;
  std::optional<session::PeerId> coordinator_;
  std::vector<std::string> layers_;  // of the job, by their names
  std::vector<std::byte> probe_;     // where the coordinator's probes go
  bool welcomed_ = false, begun_ = false;
  bool told_connected_ = false;
  bool ended_ = false;
  Status failure_;                         // waiting for the verdict
  bool told_failure_ = false;              // to the coordinator
  bool echo_ = false;                      // the failure only follows from what another process knows already
  std::unique_ptr<TaskThread> preparing_;  // until it is prepared
};

}  // namespace paceline::runtime
