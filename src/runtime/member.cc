#include "runtime/member.h"

namespace paceline::runtime {
namespace {

using session::PeerId;
using wire::Channel;
using wire::MessageKind;
using wire::PeerName;
using wire::Role;

constexpr Duration kVerdictLimit = std::chrono::seconds(1);

// Losing a peer, or waiting for it in vain: others may know why.
bool comes_from_a_peer(const Status& reason) {
  return reason.kind() == ErrorKind::kCancelled || reason.kind() == ErrorKind::kPeerLost || reason.kind() == ErrorKind::kDeadline;
}

Status misplaced(MessageKind kind) {
  return error(ErrorKind::kCorrupt, "the coordinator sent a message of the unexpected kind {}", static_cast<int>(kind));
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Member::Member(transport::Transport& transport, MemberOptions options) : transport_(transport), options_(std::move(options)) {
  session::EndpointOptions endpoint;
  endpoint.self = {options_.roles, Rank{-1}};
  endpoint.seed = options_.seed;
  endpoint.silence_deadline = options_.silence_deadline;
  endpoint_ = std::make_unique<session::Endpoint>(transport_, endpoint, *this);
}

Member::~Member() = default;

Status Member::start() {
  if (listens()) {
    PACELINE_ASSIGN_OR_RETURN(const transport::Address address, endpoint_->listen(options_.listen));
    listening_ = address.text();
  }
  endpoint_->connect(options_.coordinator, wire::kTheCoordinator, options_.coordinator_deadline);
  return {};
}

void Member::join() {
  wire::Join join;
  join.wanted_rank = options_.wanted_rank;
  join.world_workers = options_.world_workers;
  join.address = listening_;
  join.release = options_.release;
  join.table = options_.table;
  join.settings = options_.settings;
  join.seconds = options_.seconds;
  send_control(MessageKind::kJoin, 0, encode(join));
}

void Member::send_control(MessageKind kind, Iteration iteration, std::vector<std::byte> payload, std::uint8_t flags) {
  if (!coordinator_) return;
  wire::MessageHead head;
  head.kind = kind;
  head.flags = flags;
  head.layer = wire::kControlLayer;
  head.iteration = iteration;
  head.payload_bytes = payload.size();
  endpoint_->send_owned(*coordinator_, head, std::move(payload));
}

void Member::fail(const Status& reason) {
  if (ended_ || told_failure_) return;
  const bool happened_here = !comes_from_a_peer(reason);
  if (!failure_.ok() && !happened_here) return;
  // kCancelled is a goodbye, which another rank of a collective may have heard instead of this one.
  echo_ = !happened_here && (echo_ || reason.kind() == ErrorKind::kCancelled);
  // A job that ends because somebody went, and nobody says why, has failed, in whatever order he went.
  failure_ = echo_ ? Status(ErrorKind::kPeerLost, reason.message()) : reason;
  if (!coordinator_) return on_stop(wire::stop_for(failure_));
  if (!echo_) return tell_failure();
  // Whoever ended first says why; should that have been lost, this is better than nothing.
  transport_.loop().run_after(kVerdictLimit, [this] {
    if (!ended_ && !told_failure_) tell_failure();
  });
}

void Member::ask_to_end() {
  if (!ended_ && coordinator_) send_control(MessageKind::kEndAsked, 0, {});
}

void Member::interrupt(const Status& reason) {
  if (ended_ || !failure_.ok()) return;
  failure_ = reason;
  if (!coordinator_) return on_stop(wire::stop_for(failure_));
  tell_failure();
}

void Member::tell_failure() {
  told_failure_ = true;
  send_control(MessageKind::kFailed, 0, encode(wire::stop_for(failure_)));
  transport_.loop().run_after(echo_ ? options_.silence_deadline : kVerdictLimit, [this] {
    if (!ended_) on_stop(wire::stop_for(failure_));
  });
}

void Member::send_progress(const std::string& json) { send_control(MessageKind::kProgress, 0, bytes_of(json)); }
void Member::send_report(Role seat, const std::string& json, Iteration last) {
  send_control(MessageKind::kReport, last, bytes_of(json), wire::flags_of(seat));
}
void Member::send_saved(Role seat, Iteration iteration, const std::string& json) {
  send_control(MessageKind::kSaved, iteration, bytes_of(json), wire::flags_of(seat));
}
void Member::send_timeline(const std::vector<wire::TimelinePart>& parts) {
  for (const wire::TimelinePart& part : parts) send_control(MessageKind::kTimeline, 0, encode(part));
}

void Member::send_reached(Rank asker, Iteration reached) {
  if (!coordinator_) return;
  const wire::MessageHead head{.kind = MessageKind::kReached,
                               .layer = wire::kControlLayer,
                               .unit = static_cast<std::uint32_t>(asker.value),
                               .iteration = reached};
  endpoint_->send_owned(*coordinator_, head, {});
}

// At once: what passes until it leaves counts as the network's.
void Member::tell_clock(std::uint32_t question) {
  if (!coordinator_) return;
  auto payload = encode(wire::ClockReading{reading(transport_.loop().now())});
  const wire::MessageHead head{
      .kind = MessageKind::kClockTell, .layer = wire::kControlLayer, .unit = question, .payload_bytes = payload.size()};
  endpoint_->send_owned(*coordinator_, head, std::move(payload));
}

void Member::leave(Duration limit, std::function<void()> done) { endpoint_->close(limit, std::move(done)); }

report::LinkReport Member::link() const {
  const session::LinkState link = endpoint_->link();
  const session::EndpointCounters& counters = endpoint_->counters();
  return {.window = link.window.count,
          .bandwidth = link.rate ? link.rate->value : 0,
          .round_trip = link.round_trip ? seconds(*link.round_trip) : 0,
          .overtakes = static_cast<std::int64_t>(counters.overtakes - counters.reply_overtakes),
          .reply_overtakes = static_cast<std::int64_t>(counters.reply_overtakes),
          .turns = static_cast<std::int64_t>(counters.turns),
          .window_full = static_cast<std::int64_t>(counters.window_full),
          .strangers = static_cast<std::int64_t>(counters.strangers_refused + counters.hellos_refused),
          .slowest = link.slowest ? link.slowest->to.text() : "",
          .slowest_bandwidth = link.slowest ? link.slowest->rate.value : 0,
          .fastest_bandwidth = link.fastest ? link.fastest->rate.value : 0};
}

double Member::values_wait() const {
  const session::EndpointCounters& counters = endpoint_->counters();
  return counters.replies == 0 ? 0 : seconds(counters.replies_waited) / static_cast<double>(counters.replies);
}

void Member::open_channels(const std::map<Role, session::ChannelEnd*>& ends) {
  const auto end_of = [&](Role role) {
    const auto end = ends.find(role);
    return end == ends.end() ? nullptr : end->second;
  };
  for (const Channel channel : wire::channels_of(options_.hub))
    endpoint_->channels().open(channel, end_of(wire::ends_of(channel).from), end_of(wire::ends_of(channel).to));
}

void Member::meet(PeerId peer, const PeerName& name) {
  peers_.add(name);
  for (const Channel channel : wire::channels_between(options_.roles, name.roles, options_.hub))
    endpoint_->channels().reach(channel, name.rank, peer);
  for (const Channel channel : wire::channels_between(name.roles, options_.roles, options_.hub))
    endpoint_->channels().hear(channel, name.rank, peer);
}

Status Member::on_hello(const PeerName& name) {
  if (!listens()) return error(ErrorKind::kBadRequest, "a {} takes no connections", options_.roles.text());
  if (!name.takes_data() || name.rank.value < 0 || !welcomed_) {
    return error(ErrorKind::kBadRequest, "{} cannot connect to a {}; join the job at its coordinator", name.text(),
                 options_.roles.text());
  }
  if (!peers_.takes_part(name)) {
    return error(ErrorKind::kBadRequest, "{} does not take part in this job of {}", name.text(), peers_.text());
  }
  // Among equals those of higher rank come.
  if (name.roles.hold(options_.hub) && name.rank <= rank_)
    return error(ErrorKind::kBadRequest, "{} does not connect to {} of rank {}, but the other way round", name.text(),
                 options_.roles.text(), rank_.value);
  return {};
}

void Member::on_peer(PeerId peer, const PeerName& name) {
  if (!name.takes_data()) {
    coordinator_ = peer;
    return join();
  }
  meet(peer, name);
  check_connected();
}

// What the coordinator sends, and what has no end here.
Status Member::check_takes(PeerId peer, MessageKind kind) const {
  const bool is_control = channel_of(kind) == Channel::kControl;
  if (peer == coordinator_) return is_control ? Status() : misplaced(kind);
  if (is_control) return error(ErrorKind::kBadRequest, "only the coordinator sends control messages");
  if (!begun_) return error(ErrorKind::kBadRequest, "this {} has not begun a job yet", options_.roles.text());
  return error(ErrorKind::kBadRequest, "this {} takes no messages of kind {} from there", options_.roles.text(),
               static_cast<int>(kind));
}

Result<std::span<std::byte>> Member::on_message_begin(PeerId peer, const wire::MessageHead& head) {
  PACELINE_RETURN_IF_ERROR(check_takes(peer, head.kind));
  if (head.payload_bytes > wire::kMaxControlBytes) {
    return error(ErrorKind::kBadRequest, "a control message of {} bytes; at most {} are legal", head.payload_bytes,
                 wire::kMaxControlBytes);
  }
  if (head.kind != MessageKind::kProbe) return std::span<std::byte>();  // the endpoint keeps it
  probe_.resize(head.payload_bytes);  // measures the link, so nothing is made for it while it comes
  return std::span<std::byte>(probe_);
}

// One without a payload did not begin.
void Member::on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (const Status taken = check_takes(peer, head.kind); taken.ok())
    on_control(head, payload);
  else if (peer == coordinator_ || begun_)
    fail(taken);
}

void Member::on_control(const wire::MessageHead& head, std::span<const std::byte> payload) {
  switch (head.kind) {
    case MessageKind::kWelcome: {
      const auto welcome = wire::decode_welcome(payload);
      if (welcome.ok())
        take_welcome(*welcome);
      else
        fail(welcome.status());
      break;
    }
    case MessageKind::kStop: {
      const auto stop = wire::decode_stop(payload);
      on_stop(stop.ok() ? *stop : wire::stop_for(stop.status()));
      break;
    }
    case MessageKind::kProbe:
      break;
    case MessageKind::kClockAsk:
      tell_clock(head.unit);
      break;
    case MessageKind::kPark:
      on_park();
      break;
    case MessageKind::kFinishAt:
      on_finish_at(head.iteration);
      break;
    case MessageKind::kReached:
      on_reached(Rank{static_cast<std::int32_t>(head.unit)}, head.iteration);
      break;
    case MessageKind::kWorkerDone:
      on_worker_done(Rank{static_cast<std::int32_t>(head.unit)}, head.iteration);
      break;
    default:
      fail(misplaced(head.kind));
  }
}

// A worker with a seat of the hub is welcomed to prepare, and again, to begin, when the whole hub is ready.
void Member::take_welcome(const wire::Welcome& welcome) {
  if (std::exchange(welcomed_, true)) {
    if (listens() && told_connected_) on_connected();
    return;
  }
  peers_.on_welcome(welcome);
  rank_ = Rank{welcome.rank};
  const auto self = peers_.named(options_.roles, rank_);
  if (!self || welcome.hub() != options_.hub || welcome.hub_addresses().empty()) {
    return fail(error(ErrorKind::kCorrupt, "the coordinator gave this {} rank {} of {}", options_.roles.text(), rank_.value,
                      peers_.text()));
  }
  layers_ = welcome.table.layers;
  endpoint_->set_identity(*self, welcome.job, welcome.epoch, welcome.secret);
  const auto start = on_welcome(welcome);
  if (!start.ok()) return fail(start.status());
  endpoint_->observe(start->events);
  open_channels(start->ends);
  begun_ = true;
  peers_.add(*self);
  if (holds_several()) meet(endpoint_->connect_self(), *self);
  endpoint_->set_egress(start->egress);
  if (start->prepare) {
    preparing_ = std::make_unique<TaskThread>();
    preparing_->run([this, work = start->prepare] {
      const Status status = work();
      transport_.loop().post([this, status] { on_prepared(status); });
    });
  }
  connect_to_peers(welcome);
}

void Member::on_prepared(const Status& status) {
  preparing_.reset();
  if (ended_) return;
  if (!status.ok()) return fail(status);
  check_connected();
}

// To the whole hub; in the hub to those of lower rank, and the others come.
void Member::connect_to_peers(const wire::Welcome& welcome) {
  const std::vector<std::string>& addresses = welcome.hub_addresses();
  const auto end = listens() ? welcome.rank : static_cast<std::int32_t>(addresses.size());
  for (std::int32_t rank = 0; rank < end; ++rank) {
    const auto address = transport::parse_address(addresses[static_cast<std::size_t>(rank)]);
    if (!address.ok()) return fail(address.status());
    endpoint_->connect(*address, *peers_.named(options_.hub, Rank{rank}), options_.join_deadline);
  }
  check_connected();
}

void Member::check_connected() {
  if (!begun_ || told_connected_ || preparing_ != nullptr) return;
  if (!peers_.all_connected(options_.hub)) return;
  told_connected_ = true;
  if (listens())
    send_control(MessageKind::kReady, 0, {});
  else
    on_connected();
}

std::string Member::about(const wire::MessageHead& head) const {
  const auto layer = static_cast<std::size_t>(head.layer.index);
  if (layer >= layers_.size()) return {};
  const bool of_iteration = channel_of(head.kind) != Channel::kCollective;
  return fmt::format(" at layer {}{}", layers_[layer], of_iteration ? fmt::format(" of iteration {}", head.iteration) : "");
}

void Member::on_peer_lost(PeerId, const PeerName& name, const Status& reason) {
  if (!name.takes_data()) {
    coordinator_.reset();
    // A process may have been the coordinator and a peer: all others say the same of it, whatever they heard of first.
    const bool own = !failure_.ok() && !echo_ && !comes_from_a_peer(failure_);
    if (!ended_) on_stop(wire::stop_for(own ? failure_ : reason));
    return;
  }
  peers_.remove(name);
  // Who left in good order knows why, and so will this process: from the coordinator, or because the coordinator is the one that is
  // lost.
  if (failure_.ok() && reason.kind() == ErrorKind::kCancelled) echo_ = true;
  if (!ended_) fail(reason);
}

void Member::on_stop(const wire::Stop& stop) {
  if (ended_) return;
  ended_ = true;
  on_end(stop);
}

}  // namespace paceline::runtime
