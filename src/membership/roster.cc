#include "membership/roster.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/wrong.h"

namespace paceline::membership {

using session::PeerId;
using wire::PeerName;
using wire::Role;

namespace {

// Whether two members of these roles cannot have the same rank.
bool collide(Role a, Role b) { return plays(a, b) || plays(b, a); }

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

Roster::Roster(RosterOptions options) : options_(std::move(options)) {
  PACELINE_CHECK(options_.workers >= 1 && options_.servers >= 0, "{} workers, {} servers", options_.workers, options_.servers);
  PACELINE_CHECK(options_.job != 0, "a job has a number");
}

std::int32_t Roster::count(Role part) const {
  return static_cast<std::int32_t>(
      std::count_if(members_.begin(), members_.end(), [&](const auto& member) { return plays(member.second.name.role, part); }));
}

std::int32_t Roster::both() const { return count(Role::kBoth); }

// How many members of the role there can be.
std::int32_t Roster::places(Role role) const {
  if (role == Role::kBoth) return std::min(options_.workers, options_.servers);
  return role == Role::kWorker ? options_.workers : options_.servers;
}

// Whose readiness the workers' beginning waits for.
bool Roster::prepares(Role role) const { return plays(role, options_.servers > 0 ? Role::kServer : Role::kWorker); }

std::string Roster::missing() const {
  if (options_.servers == 0) return fmt::format("{} of {} workers have joined", count(Role::kWorker), options_.workers);
  return fmt::format("{} of {} workers and {} of {} servers have joined", count(Role::kWorker), options_.workers,
                     count(Role::kServer), options_.servers);
}

std::string Roster::absent() const {
  constexpr std::size_t kNamed = 8;  // more would hide the rest of the sentence
  std::vector<std::string> names;
  for (const Role part : {Role::kWorker, Role::kServer}) {
    for (std::int32_t rank = 0; rank < places(part); ++rank) {
      const bool there = std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
        return member.second.name.rank == Rank{rank} && plays(member.second.name.role, part);
      });
      if (!there) names.push_back(PeerName{part, Rank{rank}}.text());
    }
  }
  if (names.size() <= kNamed) return fmt::format("{}", fmt::join(names, ", "));
  const std::size_t more = names.size() - kNamed;
  names.resize(kNamed);
  return fmt::format("{} and {} more", fmt::join(names, ", "), more);
}

std::optional<PeerName> Roster::name_of(PeerId peer) const {
  const auto member = members_.find(peer);
  if (member == members_.end()) return std::nullopt;
  return member->second.name;
}

std::int32_t Roster::free_places() const {
  return options_.workers + options_.servers - count(Role::kWorker) - count(Role::kServer);
}

std::optional<std::string> Roster::closed() const {
  if (phase_ == Phase::kGathering) return std::nullopt;
  return fmt::format("came too late: the job has already begun with {} workers and {} servers", options_.workers, options_.servers);
}

Status Roster::refusal(Role role, const std::string& address, const wire::Join& join) const {
  const std::string who = fmt::format("a {} ({})", to_string(role), address);
  if (const auto late = closed()) return turned_away("{} {}", who, *late);
  if (join.release != options_.release) {
    return wrong("{} runs release {}, the coordinator {}; run the same release everywhere", who, join.release, options_.release)
        .because({"release", ""});
  }
  if (join.world_workers != 0 && join.world_workers != options_.workers) {
    return disagree("{} expects {} workers, the coordinator was started for {}; give both the same --workers", who,
                    join.world_workers, options_.workers);
  }
  if (options_.servers == 0 && plays(role, Role::kServer))
    return turned_away("{} is one too many: the job trains by collective operations and has no servers", who);
  if (role == Role::kWorker && join.address.empty() != (options_.servers > 0)) {
    return options_.servers == 0
               ? disagree("{} wants servers, but the coordinator was started with --servers 0; give it --collective", who)
               : disagree(
                     "{} trains by collective operations (--collective), but the coordinator was started for {} servers; "
                     "start it with --servers 0",
                     who, options_.servers);
  }
  if (join.wanted_rank < -1 || join.wanted_rank >= places(role)) {
    const std::string members = role == Role::kBoth ? fmt::format("{} workers and {} servers", options_.workers, options_.servers)
                                                    : fmt::format("{} {}s", places(role), to_string(role));
    return turned_away("{} wants rank {}, but the job has {}: ranks 0..{} are legal", who, join.wanted_rank, members,
                       places(role) - 1);
  }
  for (const auto& [peer, member] : members_) {
    if (join.wanted_rank >= 0 && member.name.rank == Rank{join.wanted_rank} && collide(member.name.role, role)) {
      return turned_away("{} wants rank {}, which {} at {} already has; give every {} its own rank", who, join.wanted_rank,
                         member.name.text(), member.address, to_string(role));
    }
  }
  for (const Role part : {Role::kWorker, Role::kServer}) {
    if (plays(role, part) && count(part) >= places(part))
      return turned_away("{} is one too many: the job has its {} {}s", who, places(part), to_string(part));
  }
  if (!free_rank(role, join.wanted_rank)) {
    return turned_away(
        "{} needs a rank that is free in both roles, and there is none; start those with --role both first, or give "
        "every process its --rank",
        who);
  }
  return {};
}

std::optional<Rank> Roster::free_rank(Role role, std::int32_t wanted) const {
  if (wanted >= 0) return Rank{wanted};
  for (std::int32_t rank = 0; rank < places(role); ++rank) {
    const bool taken = std::any_of(members_.begin(), members_.end(), [&](const auto& member) {
      return member.second.name.rank == Rank{rank} && collide(member.second.name.role, role);
    });
    if (!taken) return Rank{rank};
  }
  return std::nullopt;
}

wire::LayerSeconds Roster::slowest() const {
  const wire::LayerSeconds* slowest = nullptr;
  for (const auto& [peer, member] : members_) {
    if (!plays(member.name.role, Role::kWorker)) continue;
    if (member.join.seconds.empty()) return {};
    if (slowest == nullptr || member.join.seconds.total() > slowest->total()) slowest = &member.join.seconds;
  }
  return slowest == nullptr ? wire::LayerSeconds{} : *slowest;
}

Actions Roster::on_join(PeerId peer, Role role, const std::string& address, wire::Join join, std::uint32_t incarnation) {
  if (members_.contains(peer)) return {};
  if (const Status refused = refusal(role, address, join); !refused.ok()) return {SendStop{peer, wire::stop_for(refused)}};
  const PeerName name{role, *free_rank(role, join.wanted_rank)};
  members_.emplace(peer, Member{name, address, std::move(join), incarnation});
  if (count(Role::kWorker) < options_.workers || count(Role::kServer) < options_.servers) return {};
  if (const Status difference = disagreement(); !difference.ok()) return stop_all(wire::stop_for(difference));
  return prepare();
}

// Every worker is compared with worker 0, in rank order, so that everybody is told the same first difference.
Status Roster::disagreement() const {
  std::map<Rank, const Member*> workers;
  for (const auto& [peer, member] : members_) {
    if (plays(member.name.role, Role::kWorker)) workers[member.name.rank] = &member;
  }
  const Member& first = *workers.begin()->second;
  for (const auto& [rank, worker] : workers) {
    const auto settings = wire::first_difference(first.join.settings, worker->join.settings);
    const auto difference = settings ? settings : wire::first_difference(first.join.table, worker->join.table);
    if (difference) {
      return wrong("workers 0 ({}) and {} ({}) disagree on {}; start every worker with the same model and options", first.address,
                   rank.value, worker->address, *difference)
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
    if (plays(other.name.role, Role::kWorker)) welcome.worker_incarnations[rank] = other.incarnation;
    if (plays(other.name.role, Role::kServer)) welcome.server_incarnations[rank] = other.incarnation;
    if (plays(other.name.role, Role::kServer))
      welcome.servers[rank] = other.join.address;
    else if (options_.servers == 0)
      welcome.peers[rank] = other.join.address;
  }
  welcome.table = table_;
  welcome.settings = settings_;
  return welcome;
}

Actions Roster::prepare() {
  phase_ = Phase::kPreparing;
  for (const auto& [peer, member] : members_) {
    if (plays(member.name.role, Role::kWorker) && member.name.rank == Rank{0}) {
      settings_ = member.join.settings;
      table_ = member.join.table;
    }
  }
  Actions actions;
  for (const auto& [peer, member] : members_) {
    if (prepares(member.name.role)) actions.push_back(SendWelcome{peer, welcome_for(member)});
  }
  return actions;
}

Actions Roster::welcome_workers() {
  phase_ = Phase::kRunning;
  Actions actions;
  for (const auto& [peer, member] : members_) {
    if (plays(member.name.role, Role::kWorker)) actions.push_back(SendWelcome{peer, welcome_for(member)});
  }
  return actions;
}

Actions Roster::on_ready(PeerId peer) {
  const auto name = name_of(peer);
  if (phase_ != Phase::kPreparing || !name || !prepares(name->role)) return {};
  if (++ready_ < (options_.servers > 0 ? options_.servers : options_.workers)) return {};
  return welcome_workers();
}

Actions Roster::on_report(PeerId peer, Role part, std::string report, Iteration last) {
  const auto member = members_.find(peer);
  if (member == members_.end() || phase_ == Phase::kEnded) return {};
  const PeerName name = member->second.name;
  if (!plays(name.role, part)) return {};
  if (part == Role::kServer) {
    server_reports_[name.rank] = std::move(report);
    member->second.left = true;
    return end_when_all_left();
  }
  worker_reports_[name.rank] = std::move(report);
  if (phase_ != Phase::kRunning) return {};
  last_ = std::max(last_, last);
  if (static_cast<std::int32_t>(worker_reports_.size()) < options_.workers)
    return interrupt_reason_.empty() ? tell_end_of(name.rank, last) : finish_when_all_parked();
  if (interrupt_reason_.empty()) return stop_all({});
  // Programs may have ended before the iteration that was to be the last: servers must look for the last state where there is one.
  Actions actions = finish_at(last_);
  for (const Action& stop : stop_all({wire::StopKind::kInterrupted, ErrorKind::kCancelled, interrupt_reason_}))
    actions.push_back(stop);
  return actions;
}

Actions Roster::tell_end_of(Rank worker, Iteration last) const {
  Actions actions;
  if (worker_reports_.size() > 1) return actions;
  for (const auto& [peer, member] : members_) {
    if (plays(member.name.role, Role::kWorker) && member.name.rank != worker) actions.push_back(SendWorkerDone{peer, worker, last});
  }
  return actions;
}

Actions Roster::on_failed(PeerId peer, const wire::Stop& stop) { return name_of(peer) ? on_fatal(stop) : Actions{}; }

Actions Roster::on_fatal(const wire::Stop& stop) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kEnded) return {};
  return stop_all(stop);
}

Actions Roster::on_peer_lost(PeerId peer, const Status& reason) {
  const auto member = members_.find(peer);
  if (member == members_.end() || phase_ == Phase::kEnded) return {};
  member->second.left = true;
  if (phase_ == Phase::kEnding) return end_when_all_left();
  if (phase_ == Phase::kGathering) {  // it may come back; its place is free again
    members_.erase(member);
    return {};
  }
  return stop_all(wire::stop_for(reason.kind() == ErrorKind::kCancelled ? Status(ErrorKind::kPeerLost, reason.message()) : reason));
}

Actions Roster::on_gathering_deadline(Duration waited) {
  if (phase_ != Phase::kGathering) return {};
  return stop_all(wire::stop_for(error(ErrorKind::kDeadline,
                                       "only {} after {:.1f} s, without {}; start them, or wait longer with --stall-deadline",
                                       missing(), seconds(waited), absent())
                                     .because({"absent", ""})));
}

Actions Roster::on_interrupt(const std::string& reason) {
  if (phase_ == Phase::kEnded) return {};
  const bool again = std::exchange(interrupted_, true);
  const wire::Stop at_once{wire::StopKind::kInterrupted, ErrorKind::kCancelled, reason};
  if (phase_ == Phase::kEnding) return again ? leave_all(at_once) : Actions();
  return phase_ != Phase::kRunning || again ? stop_all(at_once) : park(reason);
}

// Nobody is waited for any more, not even a server that still writes its part of the last checkpoint.
Actions Roster::leave_all(const wire::Stop& stop) {
  stop_ = stop;
  for (auto& [peer, member] : members_) member.left = true;
  return end_when_all_left();
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
  for (const auto& [peer, member] : members_) {
    if (plays(member.name.role, Role::kWorker)) actions.push_back(SendPark{peer});
  }
  return actions;
}

Actions Roster::on_parked(PeerId worker, Iteration iteration) {
  const auto name = name_of(worker);
  if (phase_ != Phase::kRunning || interrupt_reason_.empty() || !name) return {};
  parked_[name->rank] = iteration;
  return finish_when_all_parked();
}

// A worker that has reported stands still too, and nobody has to go as far as it went: in BSP they are there already, else it is
// too far.
Actions Roster::finish_when_all_parked() {
  if (interrupt_reason_.empty() || parked_.empty() || told_to_finish_) return {};
  for (const auto& [peer, member] : members_) {
    const Rank rank = member.name.rank;
    if (plays(member.name.role, Role::kWorker) && !parked_.contains(rank) && !worker_reports_.contains(rank)) return {};
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
      if (plays(member.name.role, Role::kServer) == servers) actions.push_back(SendFinishAt{peer, last});
    }
  }
  return actions;
}

Actions Roster::stop_all(const wire::Stop& stop) {
  stop_ = stop;
  phase_ = Phase::kEnding;
  Actions actions;
  for (auto& [peer, member] : members_) {
    if (member.left) continue;
    actions.push_back(SendStop{peer, stop});
    // A worker has reported before; a job that failed waits for nobody's report.
    if (member.name.role == Role::kWorker || stop.kind == wire::StopKind::kFailed) member.left = true;
  }
  for (const Action& end : end_when_all_left()) actions.push_back(end);
  return actions;
}

Actions Roster::end_when_all_left() {
  if (phase_ != Phase::kEnding) return {};
  for (const auto& [peer, member] : members_) {
    if (!member.left) return {};
  }
  phase_ = Phase::kEnded;
  return {Ended{stop_}};
}

}  // namespace paceline::membership
