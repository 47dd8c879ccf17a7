#include <algorithm>

#include "base/text.h"
#include "session/endpoint_state.h"

namespace paceline::session {

namespace {

// A connection that brings nothing for this share of the silence deadline is given up while there is time for another one: a
// damaged length makes a reader wait for bytes that never come, and networks forget connections.
constexpr std::int64_t kSuspectNumerator = 3, kSuspectDenominator = 5;
constexpr Duration kLongestLinger = std::chrono::seconds(1);

std::int64_t milliseconds(Duration duration) { return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count(); }

}  // namespace

void EndpointState::post(std::function<void()> work) {
  transport_.loop().post([alive = std::weak_ptr(alive_), work = std::move(work)] {
    if (!alive.expired()) work();
  });
}

// Until when the peer must be there.
TimePoint EndpointState::limit(const Peer& peer) const { return peer.known ? peer.session.silent_at() : peer.give_up; }

TimePoint EndpointState::suspect_at(const Peer& peer) const {
  return peer.session.silent_since() + options_.silence_deadline * kSuspectNumerator / kSuspectDenominator;
}

TimePoint EndpointState::due(const Peer& peer) const {
  switch (peer.stage) {
    case Stage::kWaiting:
      return std::min(peer.retry_at, limit(peer));
    case Stage::kDialling:
      return limit(peer);
    case Stage::kGreeting:
      return std::min(peer.reply_by, limit(peer));
    // A connection that is being closed has nothing more to wait for.
    case Stage::kUp:
      if (!peer.link->failure.ok()) return TimePoint::max();
      return std::min({peer.session.heartbeat_at(), suspect_at(peer), peer.session.acknowledge_at()});
    case Stage::kDown:
      return limit(peer);
    case Stage::kEnding:
      return peer.link == nullptr ? TimePoint::max() : peer.linger_until;
  }
  return TimePoint::max();
}

// One timer for all: frames that come and go only move what is due later, and a timer that fires early looks again.
void EndpointState::arm() {
  TimePoint next = closing_ && !said_goodbye_ ? close_by_ : TimePoint::max();
  for (const auto& [id, peer] : peers_) next = std::min(next, due(*peer));
  arm(next);
}

void EndpointState::arm(TimePoint next) {
  if (next >= armed_) return;
  if (armed_ != TimePoint::max()) transport_.loop().cancel(timer_);
  armed_ = next;
  timer_ = transport_.loop().run_after(std::max<Duration>(next - now(), Duration::zero()), [this] { on_timer(); });
}

void EndpointState::on_timer() {
  const TimePoint at = now();
  const Duration late = at - std::exchange(armed_, TimePoint::max());
  std::vector<PeerId> ids;
  for (const auto& [id, peer] : peers_) {
    // This process was stopped, or very busy: what the peers sent meanwhile has not been read yet.
    if (late > options_.silence_deadline / 5) peer->session.forgive(late);
    ids.push_back(id);
  }
  for (const PeerId id : ids) {
    if (const auto found = peers_.find(id); found != peers_.end() && due(*found->second) <= at) on_due(*found->second, at);
  }
  if (closing_) check_closed();
  arm();
}

void EndpointState::on_due(Peer& peer, TimePoint at) {
  if (peer.stage == Stage::kEnding) {
    peer.linger_until = TimePoint::max();
    return peer.link->connection->close();
  }
  if (peer.stage != Stage::kUp && at >= limit(peer)) {
    const std::string last = peer.last_failure.ok() ? "" : fmt::format(" ({})", peer.last_failure.message());
    if (!peer.known) return end(peer, ErrorKind::kPeerLost, fmt::format("could not be reached in time{}", last), {});
    return end(peer, ErrorKind::kPeerLost,
               fmt::format("was silent for longer than {} ms and is probably dead, frozen or cut off{}",
                           milliseconds(options_.silence_deadline), last),
               {});
  }
  switch (peer.stage) {
    case Stage::kWaiting:
      return dial(peer);
    case Stage::kGreeting:
      peer.reply_by = TimePoint::max();
      peer.link->failure = error(ErrorKind::kPeerLost, "{} did not answer the hello within {}", peer.address_text,
                                 to_text(options_.silence_deadline / 2));
      return peer.link->connection->close();
    case Stage::kUp:
      if (at >= peer.session.heartbeat_at()) {
        transmit(*peer.link, peer.session.control(at, options_.epoch, wire::FrameKind::kHeartbeat));
      } else if (at >= peer.session.acknowledge_at()) {
        transmit(*peer.link, peer.session.control(at, options_.epoch, wire::FrameKind::kAcknowledge));
      }
      if (at >= suspect_at(peer)) {
        peer.link->failure =
            error(ErrorKind::kPeerLost, "nothing came over the connection for {}", to_text(at - peer.session.heard()));
        peer.link->connection->close();
      }
      return;
    case Stage::kDialling:
    case Stage::kDown:
    case Stage::kEnding:
      return;
  }
}

void EndpointState::end(Peer& peer, ErrorKind kind, const std::string& what, const std::string& goodbye) {
  if (peer.stage == Stage::kEnding) return;
  const TimePoint at = now();
  const std::string heard =
      peer.known ? fmt::format("; last heard {} ms ago", milliseconds(at - peer.session.heard())) : std::string();
  peer.end_reason = error(kind, "{} ({}) {}{}", peer.name.text(), peer.address_text, what, heard);
  peer.stage = Stage::kEnding;
  lanes_[peer.lane] = nullptr;
  queue_.remove(peer.lane);
  window_.on_removed(peer.lane);
  if (peer.parked != nullptr) peer.parked->connection->close();
  if (peer.link == nullptr) {
    post([this, id = peer.id] {
      if (const auto found = peers_.find(id); found != peers_.end()) finish(*found->second);
    });
  } else if (goodbye.empty()) {
    peer.linger_until = TimePoint::max();
    peer.link->connection->close();
  } else {
    // The peer closes when it has read this; to close here at once could make the network forget it on the way.
    Link& link = *peer.link;
    link.text = goodbye.substr(0, wire::kMaxReason);
    transmit(link, peer.session.control(at, options_.epoch, wire::FrameKind::kGoodbye, std::as_bytes(std::span(link.text))));
    peer.linger_until = at + std::min(kLongestLinger, options_.silence_deadline / 5);
  }
  arm();
}

// Called only directly from the loop, when no connection touches the payloads any more.
void EndpointState::finish(Peer& peer) {
  const auto here = peers_.find(peer.id);
  const std::unique_ptr<Peer> gone = std::move(here->second);
  peers_.erase(here);
  for (const auto& link : links_) {
    if (link->peer == gone.get()) link->peer = nullptr, link->counted = true;
  }
  pump();
  handler_.on_peer_lost(gone->id, gone->name, gone->end_reason);
  if (closing_) check_closed();
}

void EndpointState::drop(PeerId peer, const std::string& reason) {
  if (Peer* dropped = find(peer))
    end(*dropped, ErrorKind::kCancelled, fmt::format("was dropped: {}", reason), reason.empty() ? "dropped" : reason);
  pump();
}

void EndpointState::close(Duration limit, std::function<void()> done) {
  PACELINE_CHECK(!closing_, "close() was called twice");
  closing_ = true;
  close_by_ = now() + limit;
  done_ = std::move(done);
  check_closed();
  arm();
}

void EndpointState::check_closed() {
  if (!said_goodbye_) {
    const bool drained = std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
      return entry.second->stage == Stage::kEnding || entry.second->session.outbox().idle();
    });
    if (!drained && now() < close_by_) return;
    said_goodbye_ = true;
    for (const auto& [id, peer] : peers_) {
      if (peer->stage != Stage::kEnding) end(*peer, ErrorKind::kCancelled, "was left: this process is closing", "it has finished");
    }
    // Who is just proving something would try again and again, and find nobody.
    for (const auto& link : links_) {
      if (link->peer == nullptr && !link->counted && link->challenge != Nonce{})
        refuse(*link, wire::Verdict::kRefused, fmt::format("{} is closing", options_.self.text()));
    }
  }
  if (!peers_.empty() || !done_) return;
  listeners_.clear();
  // Not through post(): the endpoint may be destroyed by what is done now.
  transport_.loop().post(std::exchange(done_, nullptr));
}

}  // namespace paceline::session
