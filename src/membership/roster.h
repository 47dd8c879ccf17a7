// Who takes part in a job, and how far it is: the coordinator's decisions. Pure: events in, actions out; no clock, thread or I/O.
// Owned by the coordinator's loop.
//
//   gathering   workers and servers join; when all are there their tables and settings are compared; any difference refuses
//               everybody with the same words
//   preparing   servers are welcomed and say ready, so that a worker never meets a server that does not know the job
//   running     workers are welcomed; each reports when it has done its iterations
//   ending      everybody was told to stop; servers still report
//   ended
//
// A process that is worker and server (Role::kBoth) has one rank in both roles, one join, and is welcomed twice: to prepare, and to
// begin. So are the workers of a job without servers, which listen and meet each other while they prepare.
//
// A failure in any phase (a peer lost, a process that says it failed) ends the job for everyone with the reason that came first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "session/endpoint.h"
#include "wire/control.h"

namespace paceline::membership {

struct RosterOptions {
  std::int32_t workers = 1;  // at least 1
  std::int32_t servers = 1;  // 0: the workers speak to each other
  std::uint64_t job = 0;     // not 0
  std::uint32_t epoch = 1;
  std::string release;        // of this program; processes of another one are refused
  Secret secret = kNoSecret;  // of the job, which welcomes tell
};

// What the coordinator is to do, in order.
struct SendWelcome {
  session::PeerId to;
  wire::Welcome welcome;
};
struct SendStop {  // also refuses a process that tries to join
  session::PeerId to;
  wire::Stop stop;
};
struct SendPark {
  session::PeerId to;
};
struct SendFinishAt {
  session::PeerId to;
  Iteration iteration;
};
struct SendWorkerDone {  // worker `worker` computes nothing after `last`
  session::PeerId to;
  Rank worker;
  Iteration last;
};
struct Ended {  // nothing more will come
  wire::Stop stop;
};
using Action = std::variant<SendWelcome, SendStop, SendPark, SendFinishAt, SendWorkerDone, Ended>;
using Actions = std::vector<Action>;

class Roster {
 public:
  enum class Phase { kGathering, kPreparing, kRunning, kEnding, kEnded };

  explicit Roster(RosterOptions options);

  // A process of `role` wants to take part. `address` is how messages name it; `incarnation` was drawn for it. Of a member:
  // nothing.
  Actions on_join(session::PeerId peer, wire::Role role, const std::string& address, wire::Join join,
                  std::uint32_t incarnation = 0);
  // A server, or a worker of a job without them, knows the job.
  Actions on_ready(session::PeerId peer);
  // A worker has done its iterations, of which `last` was the last one, or a server its part after the stop; `part` says which of
  // the two speaks. The first worker's end is told to all others, who must not go on alone.
  Actions on_report(session::PeerId peer, wire::Role part, std::string report, Iteration last = 0);
  Actions on_failed(session::PeerId peer, const wire::Stop& stop);
  // The coordinator's own process cannot go on.
  Actions on_fatal(const wire::Stop& stop);
  Actions on_peer_lost(session::PeerId peer, const Status& reason);
  // Somebody asked to stop (a signal): workers finish the iteration that the foremost is in. Again: everything ends at once.
  Actions on_interrupt(const std::string& reason);
  // Somebody asked a worker's process to stop: as the first interrupt, and nothing when the job is stopping already.
  Actions on_end_asked(session::PeerId peer);
  // `iteration`: the one that the worker is in and will not go beyond before it is told the last one.
  Actions on_parked(session::PeerId worker, Iteration iteration);
  // The time to join is over.
  Actions on_gathering_deadline(Duration waited);

  Phase phase() const { return phase_; }
  // Everybody was told that the job has failed: what members still save is no part of a checkpoint.
  bool failed() const { return phase_ >= Phase::kEnding && stop_.kind == wire::StopKind::kFailed; }
  // Reports by rank, once there.
  const std::map<Rank, std::string>& worker_reports() const { return worker_reports_; }
  const std::map<Rank, std::string>& server_reports() const { return server_reports_; }
  // Settings and table all agreed on; after gathering.
  const wire::Settings& settings() const { return settings_; }
  const wire::TensorTable& table() const { return table_; }
  std::optional<wire::PeerName> name_of(session::PeerId peer) const;
  std::int32_t free_places() const;  // of workers and servers
  // Why nobody can join any more, as the end of a sentence about who wants to; nothing while members gather.
  std::optional<std::string> closed() const;
  std::string missing() const;  // "2 of 4 workers and 1 of 2 servers have joined"
  std::string absent() const;   // "worker 2, worker 3, server 1": the first 8 who have not
  // Of the worker whose step takes longest; empty unless every worker has measured. After gathering.
  wire::LayerSeconds slowest() const;
  // Members in whose process both roles live.
  std::int32_t both() const;

 private:
  struct Member {
    wire::PeerName name;
    std::string address;
    wire::Join join;
    std::uint32_t incarnation = 0;
    bool left = false;  // has reported for the last time
  };

  Status refusal(wire::Role role, const std::string& address, const wire::Join& join) const;
  std::int32_t places(wire::Role role) const;
  std::optional<Rank> free_rank(wire::Role role, std::int32_t wanted) const;
  std::int32_t count(wire::Role part) const;
  Status disagreement() const;
  bool prepares(wire::Role role) const;
  Actions prepare();
  Actions welcome_workers();
  Actions park(const std::string& reason);
  Actions stop_all(const wire::Stop& stop);
  Actions leave_all(const wire::Stop& stop);
  wire::Welcome welcome_for(const Member& member) const;
  Actions end_when_all_left();
  Actions finish_when_all_parked();
  Actions finish_at(Iteration last) const;
  Actions tell_end_of(Rank worker, Iteration last) const;

  RosterOptions options_;
  Phase phase_ = Phase::kGathering;
  std::map<session::PeerId, Member> members_;
  wire::Settings settings_;
  wire::TensorTable table_;
  std::map<Rank, std::string> worker_reports_, server_reports_;
  std::int32_t ready_ = 0;
  wire::Stop stop_;
  std::string interrupt_reason_;  // not empty: workers are being parked
  bool interrupted_ = false;      // by on_interrupt, which then ends everything at once
  std::map<Rank, Iteration> parked_;
  bool told_to_finish_ = false;
  Iteration last_ = 0;  // the furthest of those who have reported
};

}  // namespace paceline::membership
