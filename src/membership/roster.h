// Who takes part in a job, and how far it is: the coordinator's decisions. Pure: events in, actions out; no clock, thread or I/O.
// Owned by the coordinator's loop. An event notes what it says; then verdict.h says in which phase the job is, and what a new phase
// begins with follows.
//
// A process with several seats has one rank in them, and one join. With a seat of the hub and a worker's it is welcomed twice: to
// prepare, and to begin. So are the workers of a job without servers, which meet each other while they prepare.
//
// A failure in any phase (a peer lost, a process that says it failed) ends the job for everyone with the reason that came first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "membership/seat_table.h"
#include "membership/verdict.h"
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
  explicit Roster(RosterOptions options);

  // A process wants to take part in these roles. `address` is how messages name it; `incarnation` was drawn for it. Of a member:
  // nothing.
  Actions on_join(session::PeerId peer, wire::Roles roles, const std::string& address, wire::Join join,
                  std::uint32_t incarnation = 0);
  // A member with a seat of the hub knows the job.
  Actions on_ready(session::PeerId peer);
  // A worker has done its iterations, of which `last` was the last one, or a server its part after the stop; `seat` says which of
  // the two speaks. The first worker's end is told to all others, who must not go on alone.
  Actions on_report(session::PeerId peer, wire::Role seat, std::string report, Iteration last = 0);
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
  bool failed() const { return phase_ >= Phase::kEnding && reached().stop.kind == wire::StopKind::kFailed; }
  // Reports by rank, once there.
  const std::map<Rank, std::string>& worker_reports() const { return worker_reports_; }
  const std::map<Rank, std::string>& server_reports() const { return server_reports_; }
  // Settings and table all agreed on; after gathering.
  const wire::Settings& settings() const { return settings_; }
  const wire::TensorTable& table() const { return table_; }
  std::optional<wire::PeerName> name_of(session::PeerId peer) const;
  std::optional<Rank> rank_of(session::PeerId peer, wire::Role seat) const;  // nothing: it has no such seat
  std::optional<Rank> worker_of(session::PeerId peer) const { return rank_of(peer, wire::Role::kWorker); }
  const SeatTable& seats() const { return seats_; }
  // Why nobody can join any more, as the end of a sentence about who wants to; nothing while members gather.
  std::optional<std::string> closed() const;
  // Of the worker whose step takes longest; empty unless every worker has measured. After gathering.
  wire::LayerSeconds slowest() const;
  // Members with several seats.
  std::int32_t both() const;

 private:
  struct Member {
    wire::PeerName name;
    std::string address;
    wire::Join join;
    bool left = false;  // has reported for the last time

    bool serves() const { return name.roles.hold(wire::Role::kServer); }
  };

  Status refusal(wire::Roles roles, const std::string& address, const wire::Join& join) const;
  Status disagreement() const;
  wire::Role hub() const { return wire::hub_of(static_cast<std::size_t>(options_.servers)); }
  // The members with a seat of that role, as they came; worker `rank`, which is there.
  auto with(wire::Role role) const {
    return members_ | std::views::filter([role](const auto& member) { return member.second.name.roles.hold(role); });
  }
  auto workers() const { return with(wire::Role::kWorker); }
  const Member& worker(Rank rank) const { return members_.at(*seats_.holder(wire::Role::kWorker, rank)); }
  Verdict reached() const;
  Actions advance();
  Actions begin(Phase phase);
  Actions stop_all(const wire::Stop& cause);
  Actions welcome(wire::Role role) const;
  Actions tell_stop(const wire::Stop& stop);
  Actions park(const std::string& reason);
  wire::Welcome welcome_for(const Member& member) const;
  Actions finish_when_all_parked();
  Actions finish_at(Iteration last) const;
  Actions tell_end_of(Rank worker, Iteration last) const;

  RosterOptions options_;
  Phase phase_ = Phase::kGathering;
  std::map<session::PeerId, Member> members_;
  SeatTable seats_;
  wire::Settings settings_;
  wire::TensorTable table_;
  std::map<Rank, std::string> worker_reports_, server_reports_;
  std::set<session::PeerId> ready_;
  std::optional<wire::Stop> cause_;
  std::string interrupt_reason_;  // not empty: workers are being parked
  bool interrupted_ = false;      // by on_interrupt, which then ends everything at once
  std::map<Rank, Iteration> parked_;
  bool told_to_finish_ = false;
  Iteration last_ = 0;  // the furthest of those who have reported
};

}  // namespace paceline::membership
