#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "session/endpoint_state.h"

namespace paceline::session {

namespace {

// Connections in a row, over at least the silence deadline, that moved nothing although something waits to be moved.
constexpr std::uint32_t kMostFruitless = 16;

}  // namespace

Result<transport::Address> EndpointState::listen(const transport::Address& address) {
  auto accepted = [this](std::unique_ptr<transport::Connection> connection) { add_link(std::move(connection), nullptr); };
  PACELINE_ASSIGN_OR_RETURN(auto listener,
                            common_.transport.listen(address, {.plane = plane_of(common_.options.self)}, std::move(accepted)));
  const auto where = listener->address();
  listeners_.push_back(std::move(listener));
  return where;
}

std::uint16_t EndpointState::port_at(const std::string& host) const {
  for (const auto& listener : listeners_) {
    const transport::Address at = listener->address();
    if (at.host == host || at.host == "0.0.0.0" || at.host == "::") return at.port;
  }
  return 0;
}

Link& EndpointState::add_link(std::unique_ptr<transport::Connection> connection, Peer* peer) {
  links_.push_back(std::make_unique<Link>(*this, std::move(connection)));
  Link& link = *links_.back();
  link.peer = peer;
  link.connection->start(link);
  return link;
}

Peer& EndpointState::add_peer(const wire::PeerName& name, Stage stage) {
  auto added = std::make_unique<Peer>(common_.now(), common_.options.silence_deadline);
  Peer& peer = *added;
  peer.id = ++last_peer_;
  peer.name = name;
  peer.as = common_.options.self;
  peer.stage = stage;
  peer.lane = queue_.add();
  if (lanes_.size() <= peer.lane) lanes_.resize(peer.lane + 1);
  lanes_[peer.lane] = &peer;
  common_.peers.emplace(peer.id, std::move(added));
  return peer;
}

void EndpointState::attach(Peer& peer, Link& link, std::uint64_t received) {
  peer.link = &link;
  link.peer = &peer;
  link.connection->admit();
  const std::string& own_host = link.connection->ends().local.host;
  const auto address = transport::parse_address(link.connection->ends().peer);
  peer.elsewhere = address.ok() && !own_host.empty() && address->host != own_host;
  if (const Status status = peer.session.on_attached(common_.now(), received); !status.ok()) {
    return end(peer, ErrorKind::kCorrupt, fmt::format("and this process disagree on what was sent: {}", status.message()),
               status.message());
  }
  peer.stage = Stage::kUp;
  peer.attached = common_.now();
  if (!peer.connecting) door_.reply(link, peer);
  while (const auto piece = peer.session.outbox().next_resend()) {
    ++common_.counters.chunks_resent;
    transmit(link, peer.session.chunk(common_.now(), common_.options.epoch, *piece));
  }
  queue_.resume(peer.lane);
  release(peer);
  if (peer.stage == Stage::kEnding) return;
  if (peer.known) {
    ++common_.counters.reconnects;
  } else {
    peer.known = true;
    peer.failures = 0;
    common_.handler.on_peer(peer.id, peer.name);
  }
  pump();
  liveness_.arm();
}

void EndpointState::on_closed(Link& link, const Status& reason) {
  const auto here = std::find_if(links_.begin(), links_.end(), [&](const auto& owned) { return owned.get() == &link; });
  PACELINE_CHECK(here != links_.end(), "a connection ended twice");
  dead_links_.push_back(std::move(*here));
  links_.erase(here);
  post([this] { dead_links_.clear(); });

  Peer* peer = link.peer;
  const Status why = link.failure.ok() ? reason : link.failure;
  if (peer == nullptr) return door_.on_left(link, why);
  if (peer->parked == &link) peer->parked = nullptr;
  if (peer->link == &link) on_link_lost(*peer, why);
}

void EndpointState::on_link_lost(Peer& peer, const Status& reason) {
  const bool was_up = peer.stage == Stage::kUp;
  if (was_up && (reason.kind() == ErrorKind::kCorrupt || reason.kind() == ErrorKind::kBadRequest))
    ++common_.counters.frames_damaged;
  peer.link = nullptr;
  peer.session.on_detached();
  if (peer.stage == Stage::kEnding) return finish(peer);
  queue_.pause(peer.lane);
  const auto& outbox = peer.session.outbox();
  const std::uint64_t progress = peer.session.received() + outbox.acknowledged();
  if (was_up && progress != peer.progress) peer.failures = 0;
  if (peer.failures == 0) peer.fruitless_since = common_.now();
  peer.progress = progress;
  log::debug("the connection with {} ({}) ended: {}", peer.name.text(), peer.address_text, reason.message());
  release(peer);
  if (peer.stage == Stage::kEnding) return;
  if (peer.known && !outbox.idle() && peer.failures >= kMostFruitless &&
      common_.now() - peer.fruitless_since >= common_.options.silence_deadline) {
    return end(peer, ErrorKind::kPeerLost,
               fmt::format("was connected {} times without moving anything: {}", peer.failures, reason.message()), {});
  }
  if (peer.parked != nullptr) return attach(peer, *std::exchange(peer.parked, nullptr), peer.parked_received);
  if (peer.connecting) return dialler_.retry(peer, reason);
  ++peer.failures;
  peer.last_failure = reason;
  peer.stage = Stage::kDown;
  liveness_.arm();
  doorbell_.ring(peer);
}

void EndpointState::pass_over_silent(TimePoint at) {
  if (queue_.waiting() == 0) return;
  for (const auto& [id, peer] : common_.peers)
    if (peer->waits_since <= at - kPatience) queue_.on_silence(peer->lane);
  pump();
}

}  // namespace paceline::session
