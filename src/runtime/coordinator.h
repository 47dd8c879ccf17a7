// The coordinator of a job: the process that workers and servers join, that says when it begins, collects reports and says when and
// why it ends. Binds membership/roster.h to an Endpoint.
//
// Threads: belongs to the transport's loop.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "base/task_thread.h"
#include "job/spec.h"
#include "membership/alike_ledger.h"
#include "membership/joiners.h"
#include "membership/roster.h"
#include "report/report.h"
#include "runtime/link_probe.h"
#include "session/endpoint.h"
#include "timeline/collector.h"
#include "transport/transport.h"

namespace paceline::runtime {

struct CoordinatorOptions {
  transport::Address listen{"127.0.0.1", 0};
  std::int32_t workers = 1, servers = 1;  // servers 0: workers train by collective operations
  Duration silence_deadline = std::chrono::seconds(10);
  Duration gathering_deadline = std::chrono::minutes(10);  // for everybody to join
  std::string release;
  std::uint64_t job = 0;  // not 0, unlikely to be another job's
  // Gets what the processes record, which they do when it is there. Outlives the coordinator.
  timeline::TimelineCollector* timeline = nullptr;
};

// Who has gathered.
struct Gathering {
  std::int32_t both = 0;              // processes with a worker's and a server's seat
  std::optional<cost::LinkFit> link;  // measured when --schedule tuned asks for it; nothing: it could not be
  wire::LayerSeconds seconds;         // of the slowest worker; empty unless every worker has measured
};

struct CoordinatorCallbacks {
  // A worker has done an iteration, as JSON (trainer/worker_loop.cc writes it).
  std::function<void(const report::Json& progress)> on_progress;
  // Everybody has joined and agreed; may add to the specification (where to resume from, which slices). An error ends the job.
  // Called once, on a thread of its own, which has returned before anything else is called; it may take its time.
  std::function<Status(job::JobSpec& spec, const wire::TensorTable& table, const Gathering& gathering)> on_agreed;
  // A server's or worker's part of a checkpoint is on the disk.
  std::function<void(const wire::Seat& from, Iteration iteration, const std::string& part)> on_saved;
  // Once, last. The report is there when every worker has reported.
  std::function<void(const wire::Stop& stop, const std::optional<report::Json>& report)> on_ended;
};

class Coordinator final : public session::EndpointHandler {
 public:
  Coordinator(transport::Transport& transport, CoordinatorOptions options, CoordinatorCallbacks callbacks);
  ~Coordinator() override;

  // Listens. Errors: kIo when the address cannot be had.
  Result<transport::Address> start();
  // The first ends the job after the iteration, the second at once.
  void interrupt(const std::string& reason);
  // The job cannot go on, for a reason the coordinator's process knows.
  void fail(const Status& reason);

  // EndpointHandler
  Status on_hello(const wire::PeerName& name) override;
  void on_peer(session::PeerId peer, const wire::PeerName& name) override;
  Result<std::span<std::byte>> on_message_begin(session::PeerId peer, const wire::MessageHead& head) override;
  void on_message(session::PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(session::PeerId peer, wire::Channel channel, std::uint64_t ticket) override;
  void on_peer_lost(session::PeerId peer, const wire::PeerName& name, const Status& reason) override;

 private:
  void carry_out(const membership::Actions& actions);
  void fail_unless(const Status& status);
  void conclude_loss();
  void on_join(session::PeerId peer, std::span<const std::byte> payload);
  void on_progress(session::PeerId peer, std::span<const std::byte> payload);
  Status on_left_out(session::PeerId peer, Iteration iteration);
  Status on_alike(session::PeerId peer, Iteration iteration, std::span<const std::byte> payload);
  void on_report(session::PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload);
  void on_reached(session::PeerId peer, const wire::MessageHead& head);
  void drop(const std::optional<membership::Joiners::Dropped>& joiner);
  void agree();
  void probe();
  void ask();
  void on_agreement(const Status& status, const job::JobSpec& spec);
  void welcome(const membership::SendWelcome& action);
  void end(const wire::Stop& stop);
  void ask_clock(session::PeerId peer);
  void ask_clocks();
  void send_question(session::PeerId peer, std::optional<std::uint32_t> question);
  void on_reading(session::PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload);
  void on_timeline(session::PeerId peer, std::span<const std::byte> payload);
  void send(session::PeerId to, wire::MessageKind kind, Iteration iteration, std::vector<std::byte> payload);
  std::optional<report::Json> final_report(wire::Stop& stop) const;

  transport::Transport& transport_;
  CoordinatorOptions options_;
  CoordinatorCallbacks callbacks_;
  std::unique_ptr<session::Endpoint> endpoint_;
  membership::Roster roster_;
  membership::Joiners joiners_;
  membership::AlikeLedger alike_;
  std::map<session::PeerId, wire::Roles> roles_;  // of joiners and members
  std::map<session::PeerId, std::int64_t> told_;  // the iteration that a worker has told last
  std::optional<job::JobSpec> agreed_;            // with what on_agreed added
  // A member that is lost: until others have said what it was doing, for a moment.
  struct Loss {
    session::PeerId peer;
    Status reason;
    transport::Loop::TimerId until;
  };
  std::optional<Loss> loss_;
  int turned_away_ = 0;             // of those who tried to join
  bool deciding_ = false;           // from then until on_agreed has returned
  bool ended_ = false;              // the job has; what on_agreed says is of no use
  std::optional<LinkProbe> probe_;  // while it runs
  std::vector<std::byte> probe_bytes_;
  std::unique_ptr<TaskThread> agreeing_;       // while on_agreed runs
  std::vector<membership::SendWelcome> held_;  // until then
  TimePoint began_;
  transport::Loop::TimerId gathering_timer_ = 0, clock_timer_ = 0;
};

}  // namespace paceline::runtime
