#include "membership/roster.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/wrong.h"

namespace paceline::membership {

using session::PeerId;
using wire::PeerName;
using wire::Role;
using wire::Roles;

namespace {

// The job has no place for who wants to join.
template <typename... Args>
Status turned_away(fmt::format_string<Args...> format, Args&&... args) {
  return wrong(format, std::forward<Args>(args)...).because({"turned-away", ""});
}

// It was started for another job than the coordinator.
template <typename... Args>
Status disagree(fmt::format_string<Args...> format, Args&&... args) {
  return wrong(format, std::forward<Args>(args)...).because({"disagree", ""});
}

}  // namespace

Roster::Roster(RosterOptions options) : options_(std::move(options)), seats_(options_.workers, options_.servers) {
  PACELINE_CHECK(options_.workers >= 1 && options_.servers >= 0, "{} workers, {} servers", options_.workers, options_.servers);
  PACELINE_CHECK(options_.job != 0, "a job has a number");
}

std::int32_t Roster::both() const {
  return static_cast<std::int32_t>(
      std::ranges::count_if(members_, [](const auto& member) { return member.second.name.roles.list().size() > 1; }));
}

std::optional<PeerName> Roster::name_of(PeerId peer) const {
  const auto member = members_.find(peer);
  if (member == members_.end()) return std::nullopt;
  return member->second.name;
}

std::optional<Rank> Roster::rank_of(PeerId peer, Role seat) const {
  const auto name = name_of(peer);
  return name ? name->rank_as(seat) : std::nullopt;
}

std::optional<std::string> Roster::closed() const {
  if (phase_ == Phase::kGathering) return std::nullopt;
  return fmt::format("came too late: the job has already begun with {} workers and {} servers", options_.workers, options_.servers);
}

Status Roster::refusal(Roles roles, const std::string& address, const wire::Join& join) const {
  const std::string who = fmt::format("a {} ({})", roles.text(), address);
  if (const auto late = closed()) return turned_away("{} {}", who, *late);
  if (join.release != options_.release) {
    return wrong("{} runs release {}, the coordinator {}; run the same release everywhere", who, join.release, options_.release)
        .because({"release", ""});
  }
  if (join.world_workers != 0 && join.world_workers != options_.workers) {
    return disagree("{} expects {} workers, the coordinator was started for {}; give both the same --workers", who,
                    join.world_workers, options_.workers);
  }
  if (seats_.places(roles) == 0)
    return turned_away("{} is one too many: the job trains by collective operations and has no servers", who);
  if (!roles.hold(Role::kServer) && join.address.empty() != (options_.servers > 0)) {
    return options_.servers == 0
               ? disagree("{} wants servers, but the coordinator was started with --servers 0; give it --collective", who)
               : disagree(
                     "{} trains by collective operations (--collective), but the coordinator was started for {} servers; "
                     "start it with --servers 0",
                     who, options_.servers);
  }
  if (join.wanted_rank < -1 || join.wanted_rank >= seats_.places(roles)) {
    return turned_away("{} wants rank {}, but the job has {}: ranks 0..{} are legal", who, join.wanted_rank, seats_.text(roles),
                       seats_.places(roles) - 1);
  }
  for (const Role role : roles.list()) {
    if (const auto holder = seats_.holder(role, Rank{join.wanted_rank})) {
      const Member& has = members_.at(*holder);
      return turned_away("{} wants rank {}, which {} at {} already has; give every {} its own rank", who, join.wanted_rank,
                         has.name.text(), has.address, roles.text());
    }
  }
  for (const Role role : roles.list()) {
    if (seats_.is_full(role)) return turned_away("{} is one too many: the job has its {}", who, seats_.text(role));
  }
  if (join.wanted_rank < 0 && !seats_.free_rank(roles)) {
    return turned_away(
        "{} needs a rank that is free in both roles, and there is none; start those with --role both first, or give "
        "every process its --rank",
        who);
  }
  return {};
}

wire::LayerSeconds Roster::slowest() const {
  const wire::LayerSeconds* slowest = nullptr;
  for (const auto& [peer, member] : workers()) {
    if (member.join.seconds.empty()) return {};
    if (slowest == nullptr || member.join.seconds.total() > slowest->total()) slowest = &member.join.seconds;
  }
  return slowest == nullptr ? wire::LayerSeconds{} : *slowest;
}

Actions Roster::on_join(PeerId peer, Roles roles, const std::string& address, wire::Join join, std::uint32_t incarnation) {
  if (members_.contains(peer)) return {};
  if (const Status refused = refusal(roles, address, join); !refused.ok()) return {SendStop{peer, wire::stop_for(refused)}};
  const PeerName name{roles, join.wanted_rank >= 0 ? Rank{join.wanted_rank} : *seats_.free_rank(roles), incarnation};
  seats_.take(name, peer);
  members_.emplace(peer, Member{name, address, std::move(join)});
  if (seats_.free_places() > 0) return {};
  const Status difference = disagreement();
  return difference.ok() ? advance() : stop_all(wire::stop_for(difference));
}

// Every worker is compared with worker 0, in rank order, so that everybody is told the same first difference.
Status Roster::disagreement() const {
  const Member& first = worker(Rank{0});
  for (Rank rank{0}; rank.value < options_.workers; ++rank.value) {
    const Member& other = worker(rank);
    const auto settings = wire::first_difference(first.join.settings, other.join.settings);
    const auto difference = settings ? settings : wire::first_difference(first.join.table, other.join.table);
    if (difference) {
      return wrong("workers 0 ({}) and {} ({}) disagree on {}; start every worker with the same model and options", first.address,
                   rank.value, other.address, *difference)
          .because({settings ? "disagree" : "model-differs", ""});
    }
  }
  const Status valid = validate(first.join.table);
  return valid.ok() ? valid : wrong("{}", valid.message());
}

wire::Welcome Roster::welcome_for(const Member& member) const {
  wire::Welcome welcome;
  welcome.rank = member.name.rank.value;
  welcome.workers = options_.workers;
  welcome.job = options_.job;
  welcome.epoch = options_.epoch;
  welcome.servers.resize(static_cast<std::size_t>(options_.servers));
  if (options_.servers == 0) welcome.peers.resize(static_cast<std::size_t>(options_.workers));
  welcome.secret = options_.secret;
  welcome.worker_incarnations.resize(static_cast<std::size_t>(options_.workers));
  welcome.server_incarnations.resize(static_cast<std::size_t>(options_.servers));
  for (const auto& [peer, other] : members_) {
    const auto rank = static_cast<std::size_t>(other.name.rank.value);
    for (const Role role : other.name.roles.list()) {
      (role == Role::kServer ? welcome.server_incarnations : welcome.worker_incarnations)[rank] = other.name.incarnation;
      if (role == hub()) (options_.servers > 0 ? welcome.servers : welcome.peers)[rank] = other.join.address;
    }
  }
  welcome.table = table_;
  welcome.settings = settings_;
  return welcome;
}

Verdict Roster::reached() const {
  const auto staying = std::ranges::count_if(members_, [](const auto& member) { return !member.second.left; });
  return verdict({.free_seats = seats_.free_places(),
                  .unready = seats_.places(hub()) - static_cast<std::int32_t>(ready_.size()),
                  .working = options_.workers - static_cast<std::int32_t>(worker_reports_.size()),
                  .staying = static_cast<std::int32_t>(staying),
                  .cause = cause_,
                  .asked = interrupt_reason_});
}

// What follows from the phase that the job is in by now. No phase is left out on the way to a later one but for those of a job that
// fails.
Actions Roster::advance() {
  Actions actions;
  for (Phase next = reached().phase; next != phase_; next = reached().phase) {
    phase_ = next == Phase::kEnded && phase_ < Phase::kEnding ? Phase::kEnding : next;
    for (Action& action : begin(phase_)) actions.push_back(std::move(action));
  }
  return actions;
}

Actions Roster::begin(Phase phase) {
  switch (phase) {
    case Phase::kPreparing:
      settings_ = worker(Rank{0}).join.settings;
      table_ = worker(Rank{0}).join.table;
      return welcome(hub());
    case Phase::kRunning:
      return welcome(Role::kWorker);
    case Phase::kEnding:
      return tell_stop(reached().stop);
    case Phase::kEnded:
      return {Ended{reached().stop}};
    case Phase::kGathering:
      break;
  }
  return {};
}

// The first cause stays.
Actions Roster::stop_all(const wire::Stop& cause) {
  if (phase_ < Phase::kEnding) cause_ = cause;
  return advance();
}

Actions Roster::welcome(Role role) const {
  Actions actions;
  for (const auto& [peer, member] : with(role)) actions.push_back(SendWelcome{peer, welcome_for(member)});
  return actions;
}

Actions Roster::on_ready(PeerId peer) {
  if (phase_ == Phase::kPreparing && rank_of(peer, hub())) ready_.insert(peer);
  return advance();
}

Actions Roster::on_report(PeerId peer, Role seat, std::string report, Iteration last) {
  const auto rank = rank_of(peer, seat);
  if (!rank || phase_ == Phase::kEnded) return {};
  if (seat == Role::kServer) {
    server_reports_[*rank] = std::move(report);
    members_.at(peer).left = true;
    return advance();
  }
  worker_reports_[*rank] = std::move(report);
  if (phase_ != Phase::kRunning) return {};
  last_ = std::max(last_, last);
  const bool all = static_cast<std::int32_t>(worker_reports_.size()) == options_.workers;
  if (!all) return interrupt_reason_.empty() ? tell_end_of(*rank, last) : finish_when_all_parked();
  // Programs may have ended before the iteration that was to be the last: servers must look for the last state where there is one.
  Actions actions = interrupt_reason_.empty() ? Actions() : finish_at(last_);
  for (Action& action : advance()) actions.push_back(std::move(action));
  return actions;
}

Actions Roster::tell_end_of(Rank worker, Iteration last) const {
  Actions actions;
  if (worker_reports_.size() > 1) return actions;
  for (const auto& [peer, member] : workers()) {
    if (member.name.rank != worker) actions.push_back(SendWorkerDone{peer, worker, last});
  }
  return actions;
}

Actions Roster::on_failed(PeerId peer, const wire::Stop& stop) { return name_of(peer) ? on_fatal(stop) : Actions{}; }

Actions Roster::on_fatal(const wire::Stop& stop) { return stop_all(stop); }

Actions Roster::on_peer_lost(PeerId peer, const Status& reason) {
  const auto member = members_.find(peer);
  if (member == members_.end() || phase_ == Phase::kEnded) return {};
  member->second.left = true;
  if (phase_ == Phase::kGathering) {  // it may come back; its place is free again
    seats_.free(member->second.name);
    members_.erase(member);
    return {};
  }
  return stop_all(wire::stop_for(reason.kind() == ErrorKind::kCancelled ? Status(ErrorKind::kPeerLost, reason.message()) : reason));
}

Actions Roster::on_gathering_deadline(Duration waited) {
  if (phase_ != Phase::kGathering) return {};
  return stop_all(wire::stop_for(error(ErrorKind::kDeadline,
                                       "only {} after {:.1f} s, without {}; start them, or wait longer with --stall-deadline",
                                       seats_.missing(), seconds(waited), seats_.absent())
                                     .because({"absent", ""})));
}

Actions Roster::on_interrupt(const std::string& reason) {
  if (phase_ == Phase::kEnded) return {};
  const bool again = std::exchange(interrupted_, true);
  const wire::Stop at_once{wire::StopKind::kInterrupted, ErrorKind::kCancelled, reason};
  if (phase_ == Phase::kRunning && !again) return park(reason);
  if (phase_ < Phase::kEnding) return stop_all(at_once);
  if (!again) return {};
  // Nobody is waited for any more, not even a server that still writes its part of the last checkpoint.
  cause_ = at_once;
  for (auto& [peer, member] : members_) member.left = true;
  return advance();
}

// A launcher signals all its processes, and the coordinator's hears of it from them too: that is still the first time.
Actions Roster::on_end_asked(PeerId peer) {
  const auto name = name_of(peer);
  if (phase_ != Phase::kRunning || !name) return {};
  return park(fmt::format("{} was asked to end by a signal", name->text()));
}

Actions Roster::park(const std::string& reason) {
  if (!interrupt_reason_.empty()) return {};
  interrupt_reason_ = reason;
  Actions actions;
  for (const auto& [peer, member] : workers()) actions.push_back(SendPark{peer});
  return actions;
}

Actions Roster::on_parked(PeerId worker, Iteration iteration) {
  const auto rank = worker_of(worker);
  if (phase_ != Phase::kRunning || interrupt_reason_.empty() || !rank) return {};
  parked_[*rank] = iteration;
  return finish_when_all_parked();
}

// A worker that has reported stands still too, and nobody has to go as far as it went: in BSP they are there already, else it is
// too far.
Actions Roster::finish_when_all_parked() {
  if (interrupt_reason_.empty() || parked_.empty() || told_to_finish_) return {};
  for (const auto& [peer, member] : workers()) {
    if (!parked_.contains(member.name.rank) && !worker_reports_.contains(member.name.rank)) return {};
  }
  told_to_finish_ = true;
  Iteration last = 0;
  for (const auto& [rank, begun] : parked_) {
    if (!worker_reports_.contains(rank)) last = std::max(last, begun);
  }
  return finish_at(last);
}

Actions Roster::finish_at(Iteration last) const {
  Actions actions;
  // Servers first: they must know where to take the last checkpoint before a worker's push can complete it.
  for (const bool servers : {true, false}) {
    for (const auto& [peer, member] : members_) {
      if (member.serves() == servers) actions.push_back(SendFinishAt{peer, last});
    }
  }
  return actions;
}

Actions Roster::tell_stop(const wire::Stop& stop) {
  Actions actions;
  for (auto& [peer, member] : members_) {
    if (member.left) continue;
    actions.push_back(SendStop{peer, stop});
    // A worker has reported before; a job that failed waits for nobody's report.
    if (!member.serves() || stop.kind == wire::StopKind::kFailed) member.left = true;
  }
  return actions;
}

}  // namespace paceline::membership
