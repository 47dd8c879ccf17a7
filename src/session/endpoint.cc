#include "session/endpoint.h"

#include <bit>

#include "base/check.h"
#include "session/channels.h"
#include "session/endpoint_state.h"
#include "session/flow.h"

namespace paceline::session {

Endpoint::Endpoint(transport::Transport& transport, EndpointOptions options, EndpointHandler& handler)
    : channels_(std::make_unique<Channels>(*this, handler)),
      state_(std::make_unique<EndpointState>(transport, options, *channels_)) {}
Endpoint::~Endpoint() = default;

Result<transport::Address> Endpoint::listen(const transport::Address& address) { return state_->listen(address); }
PeerId Endpoint::connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline) {
  return state_->connect(address, expected, deadline);
}
PeerId Endpoint::connect_self() { return state_->connect_self(); }
void Endpoint::send(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  state_->send(peer, head, payload, ticket);
}
void Endpoint::send_owned(PeerId peer, wire::MessageHead head, std::vector<std::byte> payload) {
  state_->send_owned(peer, head, std::move(payload));
}
void Endpoint::set_identity(const wire::PeerName& self, std::uint64_t job, std::uint32_t epoch, const Secret& secret) {
  state_->set_identity(self, job, epoch, secret);
}
void Endpoint::set_name(PeerId peer, const wire::PeerName& name) { state_->set_name(peer, name); }
void Endpoint::drop(PeerId peer, const std::string& reason) { state_->drop(peer, reason); }
void Endpoint::close(Duration limit, std::function<void()> done, const std::string& farewell) {
  state_->close(limit, std::move(done), farewell);
}
void Endpoint::set_egress(const scheduling::EgressRules& rules) { state_->set_egress(rules); }
void Endpoint::observe(wire::EventSink* events) { state_->observe(events); }
void Endpoint::tell(wire::Happening what, Rank peer, const wire::MessageHead& head) const { state_->tell(what, peer, head); }
std::string Endpoint::address_of(PeerId peer) const { return state_->address_of(peer); }
const EndpointCounters& Endpoint::counters() const { return state_->counters(); }
LinkState Endpoint::link() const { return state_->link(); }

std::span<std::byte> Link::on_head(const wire::FrameHeader& header, std::span<const std::byte> body) {
  return state.on_head(*this, header, body);
}
void Link::on_frame(const transport::Frame& frame) { state.on_frame(*this, frame); }
void Link::on_sent(std::uint64_t ticket) { state.on_sent(*this, ticket); }
void Link::on_closed(const Status& reason) { state.on_closed(*this, reason); }

namespace {

EndpointOptions require_valid(const EndpointOptions& options) {
  const auto checked = validated(options);
  PACELINE_CHECK(checked.ok(), "{}", checked.status().message());
  return *checked;
}

constexpr std::size_t kMostUnread = 64;  // frames
// What a way must have carried before its rate is told.
constexpr Duration kLeastWaited = std::chrono::milliseconds(200);
constexpr Bytes kLeastSent{1'000'000};

}  // namespace

EndpointState::EndpointState(transport::Transport& transport, EndpointOptions options, EndpointHandler& handler)
    : common_{.transport = transport, .options = require_valid(options), .handler = handler},
      queue_({.order = options.order, .window = options.window, .chunk = options.chunk}),
      window_(scheduling::fixed_window(options.window)) {}

EndpointState::~EndpointState() { alive_.reset(); }

PeerId EndpointState::connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline) {
  return dialler_.connect(address, expected, deadline);
}

void EndpointState::set_identity(const wire::PeerName& self, std::uint64_t job, std::uint32_t epoch, const Secret& secret) {
  common_.options.self = self;
  common_.options.job = job;
  common_.options.epoch = epoch;
  common_.options.secret = secret;
}

void EndpointState::set_egress(const scheduling::EgressRules& rules) {
  queue_.set_rules(rules);
  if (loopback_ != nullptr) loopback_->set_egress(rules);
  window_.set_rule(rules.window);
  queue_.set_window(window_.window(), window_.chunk());
  queue_.set_wide(window_.wide());
  pump();
}

LinkState EndpointState::link() const {
  LinkState link{
      .window = queue_.window(), .chunk = queue_.chunk(), .rate = window_.sustained(), .round_trip = window_.round_trip()};
  for (const auto& [id, peer] : common_.peers) {
    const bool tells = peer->elsewhere && peer->name.takes_data() && peer->waited >= kLeastWaited;
    if (!tells || peer->acknowledged < kLeastSent) continue;
    const LinkState::Way way{peer->name, {static_cast<double>(peer->acknowledged.count) / seconds(peer->waited)}};
    if (!link.slowest || way.rate < link.slowest->rate) link.slowest = way;
    if (!link.fastest || link.fastest->rate < way.rate) link.fastest = way;
  }
  return link;
}

void EndpointState::set_name(PeerId peer, const wire::PeerName& name) {
  if (Peer* named = common_.find(peer)) named->name = name;
}

std::string EndpointState::address_of(PeerId peer) const {
  const auto found = common_.peers.find(peer);
  return found == common_.peers.end() ? std::string() : found->second->address_text;
}

const EndpointCounters& EndpointState::counters() {
  common_.counters.overtakes = queue_.overtakes();
  common_.counters.reply_overtakes = queue_.overtakes(scheduling::Flow::kReply);
  common_.counters.turns = queue_.turns();
  return common_.counters;
}

PeerId EndpointState::connect_self() {
  PACELINE_CHECK(loopback_ == nullptr, "a session with itself begins once");
  loopback_ = std::make_unique<Loopback>(common_.transport.loop(), ++last_peer_, common_.options.self, common_.handler);
  return loopback_->self();
}

// Sending.

void EndpointState::send(PeerId peer, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  PACELINE_CHECK(payload.size() == head.payload_bytes, "a payload of {} bytes for a head that says {}", payload.size(),
                 head.payload_bytes);
  if (loopback_ != nullptr && peer == loopback_->self()) return loopback_->send(head, payload, ticket);
  if (Peer* to = begin_sending(peer)) enqueue(*to, head, ticket, to->session.outbox().add(head, payload, ticket));
}

void EndpointState::send_owned(PeerId peer, const wire::MessageHead& head, std::vector<std::byte> payload) {
  PACELINE_CHECK(payload.size() == head.payload_bytes, "a payload of {} bytes for a head that says {}", payload.size(),
                 head.payload_bytes);
  if (Peer* to = begin_sending(peer)) enqueue(*to, head, 0, to->session.outbox().add_owned(head, std::move(payload)));
}

Peer* EndpointState::begin_sending(PeerId peer) {
  Peer* to = common_.find(peer);
  if (to != nullptr && to->session.outbox().idle()) to->session.on_busy(common_.now());
  return to;
}

void EndpointState::enqueue(Peer& peer, const wire::MessageHead& head, std::uint64_t ticket, Outbox::Slot slot) {
  ++common_.counters.messages_sent;
  common_.counters.payload_bytes_sent += head.payload_bytes;
  const scheduling::Flow flow = flow_of(channel_of(head.kind));
  if (flow == scheduling::Flow::kReply) {
    peer.ready.resize(std::max<std::size_t>(peer.ready.size(), slot + 1));
    peer.ready[slot] = common_.now();
  }
  queue_.on_ready({.destination = peer.lane,
                   .layer = head.layer,
                   .size = {static_cast<std::int64_t>(head.payload_bytes)},
                   .tag = slot,
                   .flow = flow,
                   .iteration = head.iteration,
                   .turn = turn_of(head, ticket)});
  pump();
}

void EndpointState::transmit(Link& link, const OutFrame& frame) {
  ++link.queued;
  link.connection->send(frame.head, frame.payload, frame.ticket);
}

// Everything for which there is room in the window goes to the connections at once: the window is the limit of what an urgent
// message has to wait for.
void EndpointState::pump() {
  if (queue_.waiting() == 0) return;
  while (const auto chunk = queue_.take()) {
    Peer& peer = *lanes_[chunk->destination];
    const auto piece = peer.session.outbox().take(static_cast<Outbox::Slot>(chunk->tag), chunk->offset, chunk->size);
    const TimePoint at = common_.now();
    if (chunk->offset.count == 0) {
      tell(wire::Happening::kLeft, peer.name.rank, piece.body.head);
      if (flow_of(channel_of(piece.body.head.kind)) == scheduling::Flow::kReply) {
        ++common_.counters.replies;
        common_.counters.replies_waited += at - peer.ready[chunk->tag];
      }
    }
    window_.on_sent(chunk->destination, at);
    peer.waits_since = std::min(peer.waits_since, at);
    transmit(*peer.link, peer.session.chunk(at, common_.options.epoch, piece));
  }
  if (queue_.waiting() == 0 || queue_.in_flight().count == 0) return;
  ++common_.counters.window_full;
  liveness_.arm(common_.now() + kPatience);
}

void EndpointState::release(Peer& peer) {
  while (peer.stage != Stage::kEnding) {
    const auto released = peer.session.outbox().release();
    if (!released) break;
    queue_.on_acknowledged(peer.lane, released->chunk);
    const TimePoint at = common_.now();
    peer.acknowledged.count += released->chunk.count;
    if (peer.waits_since < at) peer.waited += at - peer.waits_since;
    peer.waits_since = queue_.in_flight(peer.lane).count > 0 ? at : TimePoint::max();
    const auto backlog =
        queue_.waiting() > 0 ? scheduling::WindowFollower::Backlog::kSome : scheduling::WindowFollower::Backlog::kNone;
    if (window_.on_acknowledged(peer.lane, released->chunk, backlog, common_.now()) == scheduling::WindowFollower::Window::kChanged)
      queue_.set_window(window_.window(), window_.chunk());
    queue_.set_wide(window_.wide());
    if (released->message == Outbox::Released::Message::kDelivered)
      common_.handler.on_delivered(peer.id, released->channel, released->ticket);
  }
  if (common_.closing) check_closed();
}

// While frames wait to be sent, a chunk among them may still carry the acknowledgement; when the last has left, on_sent() looks
// again.
void EndpointState::acknowledge(Peer& peer) {
  const TimePoint by = peer.session.acknowledge_at();
  if (peer.stage != Stage::kUp || by == TimePoint::max() || peer.link->queued > 0) return;
  if (by > common_.now()) return liveness_.arm(by);
  transmit(*peer.link, peer.session.control(common_.now(), common_.options.epoch, wire::FrameKind::kAcknowledge));
}

void EndpointState::on_sent(Link& link, std::uint64_t ticket) {
  --link.queued;
  Peer* peer = link.peer;
  if (peer == nullptr || peer->link != &link || peer->stage != Stage::kUp) return;
  if (ticket != 0) {
    peer->session.outbox().on_sent(ticket);
    release(*peer);
    pump();
  }
  acknowledge(*peer);
}

// Receiving.

std::span<std::byte> EndpointState::on_head(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body) {
  const Peer* peer = link.peer;
  if (peer == nullptr) {
    link.failure = error(ErrorKind::kCorrupt, "{} sent a payload before its hello", link.connection->peer());
    return {};
  }
  if (peer->stage == Stage::kEnding) return link.scratch_of(header.payload_bytes);
  const bool in_use = peer->link == &link && peer->stage == Stage::kUp;
  if (header.kind == wire::FrameKind::kChunk && in_use) return place_of_chunk(link, header, body);
  const bool may_have_text = header.kind == wire::FrameKind::kHelloReply || header.kind == wire::FrameKind::kGoodbye;
  if (may_have_text && header.payload_bytes <= wire::kMaxReason) return link.scratch_of(header.payload_bytes);
  link.failure = error(ErrorKind::kCorrupt, "a frame of kind {} with a payload of {} bytes", static_cast<int>(header.kind),
                       header.payload_bytes);
  return {};
}

std::span<std::byte> EndpointState::place_of_chunk(Link& link, const wire::FrameHeader& header, std::span<const std::byte> body) {
  Peer& peer = *link.peer;
  const auto arrival = peer.session.on_chunk_head(header, body);
  if (!arrival.ok()) {
    link.failure = arrival.status();
    return {};
  }
  switch (arrival->kind) {
    case Inbox::Arrival::Kind::kDuplicate:
      return link.scratch_of(header.payload_bytes);
    case Inbox::Arrival::Kind::kContinues:
      return peer.session.place_of(*arrival, header.payload_bytes);
    case Inbox::Arrival::Kind::kBegins:
      break;
  }
  const auto place = common_.handler.on_message_begin(peer.id, arrival->head);
  if (!place.ok()) {
    const std::string why = fmt::format("sent a message that cannot be accepted: {}", place.status().message());
    end(peer, place.status().kind(), why, fmt::format("it {}", why), place.status().code());
  }
  if (peer.stage == Stage::kEnding) return link.scratch_of(header.payload_bytes);
  return peer.session.begin(arrival->head, *place, header.payload_bytes);
}

void EndpointState::on_frame(Link& link, const transport::Frame& frame) {
  Peer* peer = link.peer;
  if (!link.failure.ok()) return;
  if (peer == nullptr) return door_.on_hello(link, frame);
  const bool goodbye = frame.header.kind == wire::FrameKind::kGoodbye;
  if (peer->stage == Stage::kEnding) {
    if (goodbye) link.connection->close();
    return;
  }
  if (peer->link != &link) {  // parked, or replaced and not gone yet
    if (goodbye && peer->parked == &link) on_event(*peer, {.kind = Session::Event::Kind::kGoodbye}, frame);
    return;
  }
  if (peer->stage == Stage::kGreeting) return dialler_.on_reply(*peer, frame);
  const auto event = peer->session.on_frame(common_.now(), frame.header, frame.body);
  if (!event.ok()) {
    link.failure = event.status();
    link.connection->close();
    return;
  }
  release(*peer);
  if (peer->stage != Stage::kEnding) on_event(*peer, *event, frame);
  pump();
}

void EndpointState::on_event(Peer& peer, const Session::Event& event, const transport::Frame& frame) {
  switch (event.kind) {
    case Session::Event::Kind::kNothing:
      break;
    case Session::Event::Kind::kHeartbeat:
      // A peer that asks without reading is not answered for ever; what waits for it shows that this process lives.
      if (peer.link->queued < kMostUnread)
        transmit(*peer.link, peer.session.control(common_.now(), common_.options.epoch, wire::FrameKind::kHeartbeatReply));
      break;
    case Session::Event::Kind::kDuplicate:
      ++common_.counters.duplicates_dropped;
      break;
    case Session::Event::Kind::kGoodbye: {
      end(peer, ErrorKind::kCancelled, fmt::format("said goodbye: {}", wire::printable_reason(frame.payload)), {});
      return;
    }
    case Session::Event::Kind::kMessage:
      acknowledge(peer);  // of receipt: whatever becomes of the message now
      ++common_.counters.messages_received;
      common_.counters.payload_bytes_received += event.head.payload_bytes;
      if (event.head.layer != wire::kControlLayer) peer.last_message = event.head;
      common_.handler.on_message(peer.id, event.head, event.payload);
      peer.session.forget();
      return;
  }
  acknowledge(peer);
}

}  // namespace paceline::session
