#include "runtime/coordinator.h"

#include <algorithm>

#include "base/log.h"
#include "base/wrong.h"
#include "job/option.h"
#include "report/json_text.h"

namespace paceline::runtime {
namespace {

using membership::Actions;
using session::PeerId;
using wire::MessageKind;
using wire::PeerName;
using wire::Role;

constexpr std::uint64_t kProbeTicket = 1;
constexpr int kMostToldOf = 100;  // of who is turned away
// For what those who worked with a lost member know of it. They hear of its end when the coordinator does.
constexpr Duration kLastWords = std::chrono::milliseconds(50);

std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// What everybody who shows progress relies on; the rest of the object is the member's own.
bool is_progress(const report::Json& json) {
  if (!json.is_object()) return false;
  for (const char* key : {"rank", "iteration", "done", "last"})
    if (json.contains(key) && !json[key].is_number_integer()) return false;
  return !json.contains("accuracy") || json["accuracy"].is_number();
}

}  // namespace

Coordinator::Coordinator(transport::Transport& transport, CoordinatorOptions options, CoordinatorCallbacks callbacks)
    : transport_(transport),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      roster_({.workers = options_.workers,
               .servers = options_.servers,
               .job = options_.job,
               .release = options_.release,
               .secret = draw_secret()}),
      alike_(options_.workers) {
  session::EndpointOptions endpoint;
  endpoint.self = wire::kTheCoordinator;
  endpoint.job = options_.job;
  endpoint.epoch = 1;
  endpoint.seed = options_.job;
  endpoint.silence_deadline = options_.silence_deadline;
  endpoint_ = std::make_unique<session::Endpoint>(transport_, endpoint, *this);
}

Coordinator::~Coordinator() = default;

Result<transport::Address> Coordinator::start() {
  PACELINE_ASSIGN_OR_RETURN(const transport::Address address, endpoint_->listen(options_.listen));
  began_ = transport_.loop().now();
  gathering_timer_ = transport_.loop().run_after(
      options_.gathering_deadline, [this] { carry_out(roster_.on_gathering_deadline(transport_.loop().now() - began_)); });
  return address;
}

void Coordinator::interrupt(const std::string& reason) { carry_out(roster_.on_interrupt(reason)); }
void Coordinator::fail_unless(const Status& status) {
  if (!status.ok()) fail(status);
}
void Coordinator::fail(const Status& reason) { carry_out(roster_.on_fatal(wire::stop_for(reason))); }

Status Coordinator::on_hello(const PeerName& name) {
  if (!name.takes_data()) return error(ErrorKind::kBadRequest, "another coordinator cannot join a job");
  if (name.rank.value != -1) return error(ErrorKind::kBadRequest, "{} has a rank already; who joins is given one", name.text());
  if (const auto late = roster_.closed()) return error(ErrorKind::kBadRequest, "a {} {}", name.roles.text(), *late);
  return {};
}

void Coordinator::on_peer(PeerId peer, const PeerName& name) {
  roles_.insert_or_assign(peer, name.roles);
  drop(joiners_.on_peer(peer, roster_.seats().free_places()));
}

void Coordinator::drop(const std::optional<membership::Joiners::Dropped>& joiner) {
  if (joiner) endpoint_->drop(joiner->peer, joiner->reason);
}

// The endpoint keeps what comes.
Result<std::span<std::byte>> Coordinator::on_message_begin(PeerId peer, const wire::MessageHead& head) {
  if (joiners_.contains(peer)) {
    PACELINE_ASSIGN_OR_RETURN(const auto dropped, joiners_.on_message_begin(peer, head, roster_.seats().free_places()));
    drop(dropped);
  }
  if (head.payload_bytes > wire::kMaxControlBytes) {
    return error(ErrorKind::kBadRequest, "a control message of {} bytes; at most {} are legal", head.payload_bytes,
                 wire::kMaxControlBytes);
  }
  return std::span<std::byte>();
}

void Coordinator::on_join(PeerId peer, std::span<const std::byte> payload) {
  auto join = wire::decode_join(payload);
  if (!join.ok()) return send(peer, MessageKind::kStop, 0, encode(wire::stop_for(join.status())));
  const Actions actions = roster_.on_join(peer, roles_.at(peer), endpoint_->address_of(peer), std::move(*join), draw_number());
  if (const auto name = roster_.name_of(peer)) {
    joiners_.remove(peer);
    endpoint_->set_name(peer, *name);
  } else if (turned_away_++ < kMostToldOf) {
    for (const membership::Action& action : actions) {
      if (const auto* refusal = std::get_if<membership::SendStop>(&action); refusal != nullptr && refusal->to == peer)
        log::warn("turned away: {}", refusal->stop.reason);
    }
  }
  carry_out(actions);
}

// Of its own, and of nobody else's.
void Coordinator::on_progress(PeerId peer, std::span<const std::byte> payload) {
  const auto name = roster_.name_of(peer);
  const auto progress = report::parse_foreign(text_of(payload), "a worker's progress");
  if (!name || !progress.ok() || !is_progress(*progress) || progress->value("rank", name->rank.value) != name->rank.value) return;
  if (const auto done = progress->find("iteration"); done != progress->end() && done->is_number_integer()) {
    const Iteration iteration = told_[peer] = done->get<std::int64_t>();
    const auto worker = roster_.worker_of(peer);
    // What became of that iteration it has not said yet.
    if (worker && iteration > 0) fail_unless(alike_.on_passed(*worker, iteration - 1));
  }
  if (callbacks_.on_progress) callbacks_.on_progress(*progress);
}

Status Coordinator::on_left_out(PeerId peer, Iteration iteration) {
  const auto worker = roster_.worker_of(peer);
  return worker && iteration >= 0 ? alike_.on_left_out(*worker, iteration) : Status();
}

Status Coordinator::on_alike(PeerId peer, Iteration iteration, std::span<const std::byte> payload) {
  const auto worker = roster_.worker_of(peer);
  PACELINE_ASSIGN_OR_RETURN(wire::Settings told, wire::decode_settings(payload));
  return worker && iteration >= 0 ? alike_.on_told(*worker, iteration, std::move(told)) : Status();
}

// A worker's last word: the job must not end well before what all have told was compared.
void Coordinator::on_report(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload) {
  const Role seat = wire::role_of(head.flags);
  const auto rank = roster_.rank_of(peer, seat);
  if (rank && seat == Role::kWorker) fail_unless(alike_.on_passed(*rank, head.iteration));
  carry_out(roster_.on_report(peer, seat, text_of(payload), head.iteration));
}

// A worker's question goes to all, and an answer to the one that asked. The asker answers too, and so hears that the way is open.
void Coordinator::on_reached(PeerId peer, const wire::MessageHead& head) {
  const auto from = roster_.worker_of(peer);
  if (!from) return;
  for (const auto& [other, roles] : roles_) {
    const auto to = roster_.worker_of(other);
    if (!to || (head.iteration != 0 && to->value != static_cast<std::int32_t>(head.unit))) continue;
    endpoint_->send_owned(other,
                          {.kind = MessageKind::kReached,
                           .layer = wire::kControlLayer,
                           .unit = static_cast<std::uint32_t>(from->value),
                           .iteration = head.iteration},
                          {});
  }
}

void Coordinator::on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (joiners_.contains(peer)) {
    if (const Status legal = membership::Joiners::check(head); !legal.ok()) return endpoint_->drop(peer, legal.message());
  }
  switch (head.kind) {
    case MessageKind::kJoin:
      return on_join(peer, payload);
    case MessageKind::kReady:
      return carry_out(roster_.on_ready(peer));
    case MessageKind::kReport:
      return on_report(peer, head, payload);
    case MessageKind::kParked:
      return carry_out(roster_.on_parked(peer, head.iteration));
    case MessageKind::kEndAsked:
      return carry_out(roster_.on_end_asked(peer));
    case MessageKind::kFailed: {
      const auto stop = wire::decode_stop(payload);
      if (!stop.ok()) return carry_out(roster_.on_failed(peer, wire::stop_for(stop.status())));
      const bool knows_more = stop->error == ErrorKind::kPeerLost;
      if (loss_ && !knows_more) conclude_loss();
      return carry_out(roster_.on_failed(peer, *stop));
    }
    case MessageKind::kSaved: {
      const Role seat = wire::role_of(head.flags);
      const auto rank = roster_.rank_of(peer, seat);
      if (rank && !roster_.failed() && !loss_ && callbacks_.on_saved)
        callbacks_.on_saved({seat, *rank}, head.iteration, text_of(payload));
      return;
    }
    case MessageKind::kProgress:
      return on_progress(peer, payload);
    case MessageKind::kReached:
      return on_reached(peer, head);
    case MessageKind::kLeftOut:
      return fail_unless(on_left_out(peer, head.iteration));
    case MessageKind::kAlike:
      return fail_unless(on_alike(peer, head.iteration, payload));
    case MessageKind::kClockTell:
      return on_reading(peer, head, payload);
    case MessageKind::kTimeline:
      return on_timeline(peer, payload);
    default:
      endpoint_->drop(peer, "the coordinator knows no such message");
      return;
  }
}

void Coordinator::ask_clock(PeerId peer) {
  if (options_.timeline != nullptr) send_question(peer, options_.timeline->ask(peer, transport_.loop().now()));
}

void Coordinator::ask_clocks() {
  for (const auto& [peer, role] : roles_) {
    if (roster_.name_of(peer)) ask_clock(peer);
  }
  clock_timer_ = transport_.loop().run_after(timeline::TimelineCollector::kAskEvery, [this] { ask_clocks(); });
}

void Coordinator::send_question(PeerId peer, std::optional<std::uint32_t> question) {
  if (question) endpoint_->send_owned(peer, {.kind = MessageKind::kClockAsk, .layer = wire::kControlLayer, .unit = *question}, {});
}

// What cannot be read here is left out: a timeline is not worth a job.
void Coordinator::on_reading(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload) {
  const TimePoint now = transport_.loop().now();
  const auto reading = wire::decode_clock_reading(payload);
  if (reading.ok() && options_.timeline != nullptr)
    send_question(peer, options_.timeline->on_reading(peer, head.unit, *reading, now));
}

void Coordinator::on_timeline(PeerId peer, std::span<const std::byte> payload) {
  auto part = wire::decode_timeline_part(payload);
  const auto name = roster_.name_of(peer);
  if (part.ok() && name && options_.timeline != nullptr) options_.timeline->on_part(peer, *name, std::move(*part));
}

void Coordinator::on_peer_lost(PeerId peer, const PeerName&, const Status& reason) {
  roles_.erase(peer);
  joiners_.remove(peer);
  const auto told = told_.extract(peer);
  const std::string after = told.empty() ? std::string() : fmt::format(", after it had told of iteration {}", told.mapped());
  if (loss_) conclude_loss();
  loss_.emplace(peer, Status(reason.kind(), reason.message() + after, cause_of(reason)),
                transport_.loop().run_after(kLastWords, [this] { conclude_loss(); }));
  const bool others_know = roster_.phase() == membership::Phase::kRunning && roster_.name_of(peer);
  if (!others_know || reason.kind() != ErrorKind::kPeerLost) conclude_loss();
}

void Coordinator::conclude_loss() {
  if (!loss_) return;
  const Loss loss = *std::exchange(loss_, std::nullopt);
  transport_.loop().cancel(loss.until);
  carry_out(roster_.on_peer_lost(loss.peer, loss.reason));
}

void Coordinator::send(PeerId to, MessageKind kind, Iteration iteration, std::vector<std::byte> payload) {
  wire::MessageHead head;
  head.kind = kind;
  head.layer = wire::kControlLayer;
  head.iteration = iteration;
  head.payload_bytes = payload.size();
  endpoint_->send_owned(to, head, std::move(payload));
}

void Coordinator::carry_out(const Actions& actions) {
  for (const membership::Action& action : actions) {
    if (const auto* start = std::get_if<membership::SendWelcome>(&action)) {
      if (!agreed_) agree();
      welcome(*start);
    } else if (const auto* stop = std::get_if<membership::SendStop>(&action)) {
      send(stop->to, MessageKind::kStop, 0, encode(stop->stop));
    } else if (const auto* park = std::get_if<membership::SendPark>(&action)) {
      send(park->to, MessageKind::kPark, 0, {});
    } else if (const auto* finish = std::get_if<membership::SendFinishAt>(&action)) {
      send(finish->to, MessageKind::kFinishAt, finish->iteration, {});
    } else if (const auto* done = std::get_if<membership::SendWorkerDone>(&action)) {
      endpoint_->send_owned(done->to,
                            {.kind = MessageKind::kWorkerDone,
                             .layer = wire::kControlLayer,
                             .unit = static_cast<std::uint32_t>(done->worker.value),
                             .iteration = done->last},
                            {});
    } else if (const auto* ended = std::get_if<membership::Ended>(&action)) {
      end(ended->stop);
    }
  }
}

// Everybody is there. Until what follows from that is known the welcomes wait.
void Coordinator::agree() {
  transport_.loop().cancel(gathering_timer_);
  auto agreed = job::from_settings(roster_.settings());
  agreed_ = agreed.ok() ? std::move(*agreed) : job::JobSpec();
  for (const PeerId late : joiners_.all()) {
    const std::string reason = fmt::format("a {} ({}) {}", roles_.at(late).text(), endpoint_->address_of(late), *roster_.closed());
    send(late, MessageKind::kStop, 0, encode(wire::stop_for(Status(ErrorKind::kBadRequest, reason, {"turned-away", ""}))));
    endpoint_->drop(late, reason);
  }
  if (!agreed.ok()) {
    deciding_ = true;  // for good: nobody is welcome
    return fail(agreed.status());
  }
  if (options_.timeline != nullptr) agreed_->watching.trace = true;
  if (!callbacks_.on_agreed) return;
  deciding_ = true;
  if (agreed_->schedule.name != "tuned") return ask();
  std::vector<PeerId> members;
  for (const auto& [peer, roles] : roles_) {
    if (roster_.worker_of(peer)) members.push_back(peer);
  }
  probe_bytes_.resize(LinkProbe::kLargest.count);
  probe_.emplace(std::move(members));
  probe();
}

void Coordinator::probe() {
  const auto volley = probe_->next(transport_.loop().now());
  if (!volley) return ask();
  wire::MessageHead head{.kind = MessageKind::kProbe, .layer = wire::kControlLayer};
  head.payload_bytes = static_cast<std::uint64_t>(volley->size.count);
  for (int i = 0; i < volley->messages; ++i)
    endpoint_->send(volley->to, head, std::span(probe_bytes_).first(head.payload_bytes), kProbeTicket);
}

void Coordinator::on_delivered(PeerId, wire::Channel, std::uint64_t ticket) {
  if (ticket == kProbeTicket && probe_ && deciding_ && probe_->on_delivered(transport_.loop().now())) probe();
}

// What on_agreed reads may take long, so the loop goes on meanwhile.
void Coordinator::ask() {
  Gathering gathering{.both = roster_.both(), .link = probe_ ? probe_->result() : std::nullopt, .seconds = roster_.slowest()};
  agreeing_ = std::make_unique<TaskThread>();
  agreeing_->run([this, gathering, spec = *agreed_, table = roster_.table()]() mutable {
    const Status status = callbacks_.on_agreed(spec, table, gathering);
    transport_.loop().post([this, status, spec = std::move(spec)] { on_agreement(status, spec); });
  });
}

void Coordinator::on_agreement(const Status& status, const job::JobSpec& spec) {
  if (ended_) return;
  agreeing_.reset();
  deciding_ = false;
  if (!status.ok()) return fail(status);
  agreed_ = spec;
  for (const membership::SendWelcome& held : std::exchange(held_, {})) welcome(held);
}

void Coordinator::welcome(const membership::SendWelcome& action) {
  if (roster_.phase() >= membership::Phase::kEnding) return;  // a Stop was the last word
  if (deciding_) {
    held_.push_back(action);
    return;
  }
  if (options_.timeline != nullptr && clock_timer_ == 0) ask_clocks();  // not before: the links were being measured
  wire::Welcome welcome = action.welcome;
  welcome.settings = to_settings(*agreed_);
  send(action.to, MessageKind::kWelcome, 0, encode(welcome));
}

void Coordinator::end(const wire::Stop& verdict) {
  if (loss_) transport_.loop().cancel(std::exchange(loss_, std::nullopt)->until);
  transport_.loop().cancel(gathering_timer_);
  transport_.loop().cancel(clock_timer_);
  if (options_.timeline != nullptr && agreed_)
    options_.timeline->begin(*agreed_, roster_.table(), options_.workers, options_.servers);
  deciding_ = false;
  ended_ = true;
  wire::Stop stop = verdict;
  const auto report = final_report(stop);
  endpoint_->close(session::Endpoint::kFarewell, [this, stop, report] {
    agreeing_.reset();  // which may take long: not before everybody has been told
    callbacks_.on_ended(stop, report);
  });
}

}  // namespace paceline::runtime
