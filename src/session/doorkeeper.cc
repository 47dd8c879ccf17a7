#include "session/doorkeeper.h"

#include <algorithm>

#include "base/log.h"
#include "base/shorten.h"
#include "session/endpoint_state.h"

namespace paceline::session {
namespace {

constexpr Duration kPerLine = std::chrono::minutes(1);

}  // namespace

void Doorkeeper::on_hello(Link& link, const transport::Frame& frame) {
  const auto stranger = [&](const Status& reason) {
    count_stranger(link, reason);
    link.failure = reason;
    link.connection->close();
  };
  if (link.counted) return;  // refused already
  if (frame.header.kind != wire::FrameKind::kHello) return stranger(error(ErrorKind::kBadRequest, "its first frame is no hello"));
  const auto hello = wire::decode_hello(frame.body);
  if (!hello.ok()) return stranger(hello.status());
  link.hello = *hello;
  judge(link);
}

// A hello that can be read: it is refused, or asked for a proof, or, if it has the right one, accepted. Until then nothing but the
// connection's nonce is kept of it.
void Doorkeeper::judge(Link& link) {
  const wire::Hello& hello = link.hello;
  Peer* const known = common_.find_session(hello.session);
  if (known == nullptr) {
    if (hello.resume == wire::Hello::Resume::kYes) return refuse(link, wire::Verdict::kUnknown, {});
    // The coordinator's welcome has reached the other side first. It tries again, and then this process knows its rank.
    if (!common_.closing && may_become(common_.options.self, hello.to)) {
      link.counted = true;  // early, but no stranger
      return link.connection->close();
    }
    if (const auto text = refusal(hello)) return refuse(link, wire::Verdict::kRefused, *text);
  } else if (known->stage == Stage::kEnding) {
    return refuse(link, wire::Verdict::kUnknown, {});
  } else if (hello.attempt < known->attempt) {  // it was under way for long
    link.counted = true;
    return link.connection->close();
  }
  if (link.challenge == Nonce{}) {
    link.challenge = draw_nonce();
    return answer(link, {.verdict = wire::Verdict::kProve, .nonce = link.challenge}, {});
  }
  const Secret& secret = known != nullptr                      ? known->secret
                         : common_.options.secret != kNoSecret ? common_.options.secret
                                                               : hello.key;
  if (secret == kNoSecret || !same(hello.proof, proof_for(hello, secret, link.challenge))) {
    return refuse(link, wire::Verdict::kRefused,
                  fmt::format("{} does not know the secret of {}; only members of the job can talk to {}", hello.from.text(),
                              known != nullptr ? "its session" : "this job", common_.options.self.text()));
  }
  if (known != nullptr) return resume(*known, link);
  accept(link, secret);
}

std::optional<std::string> Doorkeeper::refusal(const wire::Hello& hello) {
  if (common_.closing) return fmt::format("{} is closing", common_.options.self.text());
  if (auto text = objection(hello, common_.identity())) return text;
  if (hello.received != 0)
    return fmt::format("{} begins a session in which it has received {} chunks", hello.from.text(), hello.received);
  for (const auto& [id, other] : common_.peers) {
    if (other->known && other->stage != Stage::kEnding && same_process(other->name, hello.from))
      return fmt::format("{} is already in this job at {}", hello.from.text(), other->address_text);
  }
  const Status status = common_.handler.on_hello(hello.from);
  return status.ok() ? std::nullopt : std::optional(status.message());
}

void Doorkeeper::accept(Link& link, const Secret& secret) {
  Peer& peer = state_.add_peer(link.hello.from, Stage::kDown);
  peer.session_id = link.hello.session;
  peer.secret = secret;
  peer.attempt = link.hello.attempt;
  peer.address_text = link.connection->peer();
  state_.attach(peer, link, link.hello.received);
  state_.doorbell().meet(peer, *link.connection, link.hello.door);
}

// A second hello of a session: its connection was cut, or it was connected twice. The newest wins.
void Doorkeeper::resume(Peer& peer, Link& link) {
  link.peer = &peer;
  link.connection->admit();
  peer.attempt = link.hello.attempt;
  peer.address_text = link.connection->peer();
  state_.doorbell().meet(peer, *link.connection, link.hello.door);
  if (peer.link == nullptr) return state_.attach(peer, link, link.hello.received);
  if (peer.parked != nullptr) peer.parked->connection->close();
  peer.parked = &link;
  peer.parked_received = link.hello.received;
  peer.link->connection->close();
}

void Doorkeeper::refuse(Link& link, wire::Verdict verdict, const std::string& reason) {
  ++common_.counters.hellos_refused;
  tell(fmt::format("refused {} ({}): {}", link.hello.from.text(), link.connection->peer(),
                   verdict == wire::Verdict::kUnknown ? "its session is not known here" : reason));
  link.counted = true;
  link.text = shortened(reason, wire::kMaxReason);
  answer(link, {.verdict = verdict}, std::as_bytes(std::span(link.text)));
  // The peer closes when it has read this; if it does not, the transport's deadline for strangers does.
}

void Doorkeeper::reply(Link& link, const Peer& peer) {
  wire::HelloReply reply{.session = peer.session_id,
                         .job = common_.options.job,
                         .received = peer.session.received(),
                         .epoch = common_.options.epoch,
                         .from = peer.as};
  reply.proof = proof_for(reply, peer.secret, link.hello, link.challenge);
  answer(link, reply, {});
}

void Doorkeeper::answer(Link& link, wire::HelloReply reply, std::span<const std::byte> text) {
  if (reply.verdict != wire::Verdict::kAccepted) {
    reply.session = link.hello.session;
    reply.job = common_.options.job;
    reply.epoch = common_.options.epoch;
    reply.from = common_.options.self;
  }
  state_.transmit(link, {.head = wire::seal(
                             {.kind = wire::FrameKind::kHelloReply, .acknowledged = reply.received, .epoch = common_.options.epoch},
                             wire::encode(reply), text),
                         .payload = text});
}

// Whoever only looks whether somebody listens here, as peers do (doorbell.h), wants nothing.
void Doorkeeper::on_left(Link& link, const Status& reason) {
  const bool only_looked = reason.kind() == ErrorKind::kPeerLost && link.failure.ok();
  if (!only_looked) count_stranger(link, reason);
}

void Doorkeeper::count_stranger(Link& link, const Status& reason) {
  if (std::exchange(link.counted, true)) return;
  ++common_.counters.strangers_refused;
  const std::string& peer = link.connection->peer();
  const std::string who = reason.message().starts_with(peer) ? "" : peer + ": ";
  tell(fmt::format("closed a connection of a stranger, {}{}", who, reason.message()));
}

void Doorkeeper::tell(const std::string& what) {
  const std::int64_t due = (common_.now() - counted_until_) / kPerLine;
  counted_until_ += due * kPerLine;
  lines_ = std::min(kMostLines, lines_ + due);
  if (lines_ == 0) return;
  --lines_;
  const auto& counters = common_.counters;
  log::warn("{} ({} turned away so far)", what, counters.strangers_refused + counters.hellos_refused);
}

}  // namespace paceline::session
