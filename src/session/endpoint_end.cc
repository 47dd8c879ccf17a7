#include <algorithm>

#include "base/shorten.h"
#include "base/text.h"
#include "session/endpoint_state.h"

namespace paceline::session {

namespace {

constexpr Duration kLongestLinger = std::chrono::seconds(1);
constexpr Duration kToldExactly = std::chrono::milliseconds(1);  // how long ago a peer was heard

}  // namespace

void EndpointState::post(std::function<void()> work) {
  common_.transport.loop().post([alive = std::weak_ptr(alive_), work = std::move(work)] {
    if (!alive.expired()) work();
  });
}

void EndpointState::end(Peer& peer, ErrorKind kind, const std::string& what, const std::string& goodbye, const std::string& code) {
  if (peer.stage == Stage::kEnding) return;
  const TimePoint at = common_.now();
  const Duration silent = std::max(at - peer.session.heard(), kToldExactly);
  const std::string heard = peer.known ? fmt::format("; last heard {} ago", to_text(silent)) : std::string();
  const bool died = peer.known && (kind == ErrorKind::kPeerLost || kind == ErrorKind::kDeadline);
  const std::string last = died && peer.last_message ? common_.handler.about(*peer.last_message) : std::string();
  peer.end_reason = error(kind, "{} ({}) {}{}{}", peer.name.text(), peer.address_text, what, heard, last).because({code, ""});
  peer.stage = Stage::kEnding;
  lanes_[peer.lane] = nullptr;
  queue_.remove(peer.lane);
  peer.waits_since = TimePoint::max();
  window_.on_removed(peer.lane);
  if (peer.parked != nullptr) peer.parked->connection->close();
  if (peer.link == nullptr) {
    post([this, id = peer.id] {
      if (const auto found = common_.peers.find(id); found != common_.peers.end()) finish(*found->second);
    });
  } else if (goodbye.empty()) {
    peer.linger_until = TimePoint::max();
    peer.link->connection->close();
  } else {
    // The peer closes when it has read this; to close here at once could make the network forget it on the way.
    Link& link = *peer.link;
    link.text = shortened(goodbye, wire::kMaxReason);
    transmit(link, peer.session.control(at, common_.options.epoch, wire::FrameKind::kGoodbye, std::as_bytes(std::span(link.text))));
    peer.linger_until = at + std::min(kLongestLinger, common_.options.silence_deadline / 5);
  }
  liveness_.arm();
}

void EndpointState::end_gone(Peer& peer) {
  end(peer, ErrorKind::kPeerLost, "has ended: its connection closed, and its process is there no more", {});
}

// Called only directly from the loop, when no connection touches the payloads any more.
void EndpointState::finish(Peer& peer) {
  const auto here = common_.peers.find(peer.id);
  const std::unique_ptr<Peer> gone = std::move(here->second);
  common_.peers.erase(here);
  for (const auto& link : links_) {
    if (link->peer == gone.get()) link->peer = nullptr, link->counted = true;
  }
  pump();
  common_.handler.on_peer_lost(gone->id, gone->name, gone->end_reason);
  if (common_.closing) check_closed();
}

void EndpointState::drop(PeerId peer, const std::string& reason) {
  if (Peer* dropped = common_.find(peer))
    end(*dropped, ErrorKind::kCancelled, fmt::format("was dropped: {}", reason), reason.empty() ? "dropped" : reason);
  pump();
}

void EndpointState::close(Duration limit, std::function<void()> done, const std::string& farewell) {
  PACELINE_CHECK(!common_.closing, "close() was called twice");
  common_.closing = true;
  common_.close_by = common_.now() + limit;
  done_ = std::move(done);
  farewell_ = farewell;
  check_closed();
  liveness_.arm();
}

void EndpointState::check_closed() {
  if (!said_goodbye_) {
    const bool drained = std::all_of(common_.peers.begin(), common_.peers.end(), [](const auto& entry) {
      return entry.second->stage == Stage::kEnding || entry.second->session.outbox().idle();
    });
    if (!drained && common_.now() < common_.close_by) return;
    said_goodbye_ = true;
    common_.close_by = TimePoint::max();
    for (const auto& [id, peer] : common_.peers) {
      if (peer->stage != Stage::kEnding) end(*peer, ErrorKind::kCancelled, "was left: this process is closing", farewell_);
    }
    // Who is just proving something would try again and again, and find nobody.
    for (const auto& link : links_) {
      if (link->peer == nullptr && !link->counted && link->challenge != Nonce{})
        door_.refuse(*link, wire::Verdict::kRefused, fmt::format("{} is closing", common_.options.self.text()));
    }
  }
  if (!common_.peers.empty() || !done_) return;
  listeners_.clear();
  doorbell_.close();
  // Not through post(): the endpoint may be destroyed by what is done now.
  common_.transport.loop().post(std::exchange(done_, nullptr));
}

}  // namespace paceline::session
