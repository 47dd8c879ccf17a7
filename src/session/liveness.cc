#include "session/liveness.h"

#include <algorithm>

#include "base/text.h"
#include "session/dialler.h"
#include "session/endpoint_state.h"

namespace paceline::session {
namespace {

// A connection that brings nothing for this share of the silence deadline is given up while there is time for another one: a
// damaged length makes a reader wait for bytes that never come, and networks forget connections.
constexpr std::int64_t kSuspectNumerator = 3, kSuspectDenominator = 5;

// A packet with less than this passes wherever IP does.
constexpr Bytes kSmallPacket{1'200};

// Why what was sent does not arrive, though connections and what is said over them first do.
std::string way_of(Bytes stuck) {
  return stuck > kSmallPacket
             ? "small packets pass, large ones do not: look at the MTU of the way there, and whether packets are lost"
             : "look whether packets are lost on the way there";
}

}  // namespace

Liveness::~Liveness() {
  if (armed_ != TimePoint::max()) common_.transport.loop().cancel(timer_);
}

TimePoint Liveness::suspect_at(const Peer& peer) const {
  return peer.session.silent_since() + common_.options.silence_deadline * kSuspectNumerator / kSuspectDenominator;
}

// A way may let small packets through alone, as hellos are: then connections come and go for ever, and the peer is not silent. If
// one was given up already, and nothing has moved since for as long as silence may last, the way is to blame.
TimePoint Liveness::stuck_at(const Peer& peer) const {
  const Duration deadline = common_.options.silence_deadline;
  if (peer.session.outbox().idle() || peer.session.moved() >= peer.attached) return TimePoint::max();
  return std::max(peer.session.moved() + deadline,
                  peer.attached + deadline * (kSuspectDenominator - kSuspectNumerator) / kSuspectDenominator);
}

TimePoint Liveness::due(const Peer& peer) const {
  switch (peer.stage) {
    case Stage::kWaiting:
      return std::min(peer.retry_at, peer.limit());
    case Stage::kDialling:
      return peer.limit();
    case Stage::kGreeting:
      return std::min(peer.reply_by, peer.limit());
    // A connection that is being closed has nothing more to wait for.
    case Stage::kUp:
      if (!peer.link->failure.ok()) return TimePoint::max();
      return std::min({peer.session.heartbeat_at(), suspect_at(peer), stuck_at(peer), peer.session.acknowledge_at()});
    case Stage::kDown:
      return peer.limit();
    case Stage::kEnding:
      return peer.link == nullptr ? TimePoint::max() : peer.linger_until;
  }
  return TimePoint::max();
}

// One timer for all: frames that come and go only move what is due later, and a timer that fires early looks again.
void Liveness::arm() {
  TimePoint next = common_.close_by;
  for (const auto& [id, peer] : common_.peers) next = std::min(next, due(*peer));
  arm(next);
}

void Liveness::arm(TimePoint next) {
  if (next >= armed_) return;
  if (armed_ != TimePoint::max()) common_.transport.loop().cancel(timer_);
  armed_ = next;
  timer_ = common_.transport.loop().run_after(std::max<Duration>(next - common_.now(), Duration::zero()), [this] { on_timer(); });
}

void Liveness::on_timer() {
  const TimePoint at = common_.now();
  const Duration late = at - std::exchange(armed_, TimePoint::max());
  due_.clear();
  for (const auto& [id, peer] : common_.peers) {
    // This process was stopped, or very busy: what the peers sent meanwhile has not been read yet.
    if (late > common_.options.silence_deadline / 5) peer->session.forgive(late);
    if (due(*peer) <= at) due_.push_back(id);
  }
  for (const PeerId id : due_) {  // those that are left, when one is through
    if (const auto found = common_.peers.find(id); found != common_.peers.end() && due(*found->second) <= at)
      on_due(*found->second, at);
  }
  state_.pass_over_silent(at);
  if (common_.closing) state_.check_closed();
  arm();
}

void Liveness::on_due(Peer& peer, TimePoint at) {
  if (peer.stage == Stage::kEnding) {
    peer.linger_until = TimePoint::max();
    return peer.link->connection->close();
  }
  if (peer.stage != Stage::kUp && at >= peer.limit()) {
    const std::string last = peer.last_failure.ok() ? "" : fmt::format(" ({})", peer.last_failure.message());
    if (!peer.known) {
      // Why the last attempt failed, where that says more than that it failed.
      const bool told = !peer.last_failure.ok() && peer.last_failure.code() != code_of(peer.last_failure.kind());
      return state_.end(peer, ErrorKind::kPeerLost, fmt::format("could not be reached in {}{}", to_text(peer.patience), last), {},
                        told ? peer.last_failure.code() : "unreachable");
    }
    return state_.end(peer, ErrorKind::kPeerLost,
                      fmt::format("was silent for longer than {} and is probably dead, frozen or cut off{}",
                                  to_text(common_.options.silence_deadline), last),
                      {});
  }
  switch (peer.stage) {
    case Stage::kWaiting:
      return dialler_.dial(peer);
    case Stage::kGreeting:
      peer.reply_by = TimePoint::max();
      peer.link->failure = error(ErrorKind::kPeerLost, "{} did not answer the hello within {}", peer.address_text,
                                 to_text(common_.options.silence_deadline / 2));
      return peer.link->connection->close();
    case Stage::kUp:
      if (at >= stuck_at(peer)) {
        const Bytes stuck = peer.session.outbox().unacknowledged();
        return state_.end(
            peer, ErrorKind::kPeerLost,
            fmt::format("answers, but of {} that were sent there nothing has arrived for {}, over more than one connection: {}",
                        to_text(stuck), to_text(at - peer.session.moved()), way_of(stuck)),
            {}, "unreachable");
      }
      if (at >= peer.session.heartbeat_at()) {
        state_.transmit(*peer.link, peer.session.control(at, common_.options.epoch, wire::FrameKind::kHeartbeat));
      } else if (at >= peer.session.acknowledge_at()) {
        state_.transmit(*peer.link, peer.session.control(at, common_.options.epoch, wire::FrameKind::kAcknowledge));
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

}  // namespace paceline::session
