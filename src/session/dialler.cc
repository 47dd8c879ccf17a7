#include "session/dialler.h"

#include <algorithm>
#include <bit>

#include "session/backoff.h"
#include "session/endpoint_state.h"

namespace paceline::session {
namespace {

constexpr Duration kLongestBackoff = std::chrono::seconds(1);

// A stream of numbers that look random (splitmix64).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

Dialler::Dialler(EndpointCommon& common, EndpointState& state)
    : common_(common),
      state_(state),
      random_(mix(common.options.seed) ^ mix((static_cast<std::uint64_t>(common.options.self.roles.byte()) << 32) +
                                             static_cast<std::uint32_t>(common.options.self.rank.value))),
      // Two processes that were given the same seed must not draw the same session ids.
      id_salt_(mix(static_cast<std::uint64_t>(common.now().time_since_epoch().count())) ^
               mix(std::bit_cast<std::uintptr_t>(this))) {}

std::uint64_t Dialler::draw() { return mix(random_ += 0x9e3779b97f4a7c15ULL); }

PeerId Dialler::connect(const transport::Address& address, const wire::PeerName& expected, Duration deadline) {
  Peer& peer = state_.add_peer(expected, Stage::kWaiting);
  peer.connecting = true;
  peer.address = address;
  peer.address_text = address.text();
  peer.patience = deadline;
  peer.give_up = common_.now() + deadline;
  while (peer.session_id == 0) peer.session_id = draw() ^ id_salt_;
  peer.tells_secret = common_.options.secret == kNoSecret;
  peer.secret = peer.tells_secret ? draw_secret() : common_.options.secret;
  if (common_.closing) {
    state_.end(peer, ErrorKind::kCancelled, "is not connected to: this process is closing", {});
  } else {
    dial(peer);
  }
  return peer.id;
}

void Dialler::dial(Peer& peer) {
  peer.stage = Stage::kDialling;
  // A single attempt may hang at a host that drops everything; another may take another way.
  const Duration patience = std::max<Duration>(std::min(peer.limit() - common_.now(), common_.options.silence_deadline / 2),
                                               std::chrono::milliseconds(1));
  common_.transport.connect(
      peer.address, {patience, plane_of(peer.name)},
      [this, id = peer.id, alive = std::weak_ptr(alive_)](Result<std::unique_ptr<transport::Connection>> connection) {
        if (alive.expired()) return;
        Peer* dialling = common_.find(id);
        if (dialling == nullptr || dialling->stage != Stage::kDialling) return;
        if (connection.ok()) return greet(*dialling, std::move(connection).value());
        retry(*dialling, connection.status());
      });
  state_.arm();
}

void Dialler::greet(Peer& peer, std::unique_ptr<transport::Connection> connection) {
  Link& link = state_.add_link(std::move(connection), &peer);
  peer.link = &link;
  peer.stage = Stage::kGreeting;
  peer.reply_by = common_.now() + common_.options.silence_deadline / 2;
  ++peer.attempt;
  link.hello.nonce = draw_nonce();
  say_hello(peer, link);
  state_.arm();
}

// First without a proof, then, once the other side has asked for it, with one.
void Dialler::say_hello(Peer& peer, Link& link) {
  const bool proves = link.challenge != Nonce{};
  wire::Hello& hello = link.hello;
  hello = {.session = peer.session_id,
           .job = common_.options.job,
           .received = peer.session.received(),
           .epoch = common_.options.epoch,
           .attempt = peer.attempt,
           .from = peer.as,
           .to = peer.name,
           .resume = peer.known ? wire::Hello::Resume::kYes : wire::Hello::Resume::kNo,
           .nonce = hello.nonce,
           .key = proves && peer.tells_secret && !peer.known ? peer.secret : kNoSecret,
           .proof = {},
           .door = state_.doorbell().own_door(*link.connection)};
  if (proves) hello.proof = proof_for(hello, peer.secret, link.challenge);
  state_.transmit(
      link, {.head = wire::seal({.kind = wire::FrameKind::kHello, .acknowledged = hello.received, .epoch = common_.options.epoch},
                                wire::encode(hello), {})});
}

void Dialler::retry(Peer& peer, Status reason) {
  // Whoever is no peer of this protocol says so each time; damage on the way does not repeat itself.
  const bool again = !peer.last_failure.ok() && peer.last_failure.message() == reason.message();
  peer.last_failure = std::move(reason);
  if (!peer.known && again && peer.last_failure.kind() == ErrorKind::kBadRequest) {
    return state_.end(peer, ErrorKind::kBadRequest, fmt::format("cannot be talked to: {}", peer.last_failure.message()), {},
                      peer.last_failure.code());
  }
  // A process that lives listens as long as it has peers.
  if (peer.known && peer.last_failure.code() == transport::kRefused) return state_.end_gone(peer);
  peer.stage = Stage::kWaiting;
  ++peer.failures;
  peer.retry_at = common_.now() + backoff(peer.failures, draw(), std::min(kLongestBackoff, common_.options.silence_deadline / 10));
  state_.arm();
}

void Dialler::on_reply(Peer& peer, const transport::Frame& frame) {
  Link& link = *peer.link;
  const auto fail = [&](Status status) {
    link.failure = std::move(status);
    link.connection->close();
  };
  if (frame.header.kind == wire::FrameKind::kGoodbye) {
    return state_.end(peer, ErrorKind::kCancelled, fmt::format("said goodbye: {}", wire::printable_reason(frame.payload)), {});
  }
  if (frame.header.kind != wire::FrameKind::kHelloReply)
    return fail(error(ErrorKind::kCorrupt, "a frame before the answer to the hello"));
  const auto reply = wire::decode_hello_reply(frame.body);
  if (!reply.ok()) return fail(reply.status());
  if (reply->session != peer.session_id) return fail(error(ErrorKind::kCorrupt, "an answer to the hello of another session"));
  if (reply->verdict == wire::Verdict::kRefused) {
    const bool speaks = reply->lowest <= wire::kHighestSession && reply->highest >= wire::kLowestSession;
    return state_.end(peer, ErrorKind::kBadRequest, fmt::format("refused: {}", wire::printable_reason(frame.payload)), {},
                      speaks ? "turned-away" : "release");
  }
  if (reply->verdict == wire::Verdict::kUnknown) {
    return state_.end(peer, ErrorKind::kPeerLost,
                      "does not know this session any more: it was restarted, or it had given this process up", {});
  }
  if (const auto text = objection(*reply, peer.name, common_.identity()))
    return state_.end(peer, ErrorKind::kBadRequest, fmt::format("is not the right peer: {}", *text), *text, "turned-away");
  if (reply->verdict == wire::Verdict::kProve) {
    if (link.challenge != Nonce{} || reply->nonce == Nonce{})
      return fail(error(ErrorKind::kCorrupt, "a question for a proof that makes no sense"));
    link.challenge = reply->nonce;
    return say_hello(peer, link);
  }
  if (link.challenge == Nonce{} || !same(reply->proof, proof_for(*reply, peer.secret, link.hello, link.challenge)))
    return fail(error(ErrorKind::kCorrupt, "{} accepts without knowing the secret of this session", peer.address_text));
  peer.name = reply->from;
  state_.attach(peer, link, reply->received);
}

}  // namespace paceline::session
