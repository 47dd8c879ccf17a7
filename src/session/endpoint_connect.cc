#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "session/backoff.h"
#include "session/endpoint_state.h"

namespace paceline::session {

namespace {

// Connections in a row, over at least the silence deadline, that moved nothing although something waits to be moved.
constexpr std::uint32_t kMostFruitless = 16;
constexpr Duration kLongestBackoff = std::chrono::seconds(1);

}  // namespace

Result<transport::Address> EndpointState::listen(const transport::Address& address) {
  auto accepted = [this](std::unique_ptr<transport::Connection> connection) { add_link(std::move(connection), nullptr); };
  PACELINE_ASSIGN_OR_RETURN(auto listener, transport_.listen(address, {}, std::move(accepted)));
  const auto where = listener->address();
  listeners_.push_back(std::move(listener));
  return where;
}

Link& EndpointState::add_link(std::unique_ptr<transport::Connection> connection, Peer* peer) {
  links_.push_back(std::make_unique<Link>(*this, std::move(connection)));
  Link& link = *links_.back();
  link.peer = peer;
  link.connection->start(link);
  return link;
}

Peer& EndpointState::add_peer(const PeerName& name, Stage stage) {
  auto added = std::make_unique<Peer>(now(), options_.silence_deadline);
  Peer& peer = *added;
  peer.id = ++last_peer_;
  peer.name = name;
  peer.as = options_.self;
  peer.stage = stage;
  peer.lane = queue_.add();
  if (lanes_.size() <= peer.lane) lanes_.resize(peer.lane + 1);
  lanes_[peer.lane] = &peer;
  peers_.emplace(peer.id, std::move(added));
  return peer;
}

// The connecting side.

PeerId EndpointState::connect(const transport::Address& address, const PeerName& expected, Duration deadline) {
  Peer& peer = add_peer(expected, Stage::kWaiting);
  peer.connecting = true;
  peer.address = address;
  peer.address_text = address.text();
  peer.give_up = now() + deadline;
  while (peer.session_id == 0) peer.session_id = draw() ^ id_salt_;
  peer.tells_secret = options_.secret == kNoSecret;
  peer.secret = peer.tells_secret ? draw_secret() : options_.secret;
  if (closing_) {
    end(peer, ErrorKind::kCancelled, "is not connected to: this process is closing", {});
  } else {
    dial(peer);
  }
  return peer.id;
}

void EndpointState::dial(Peer& peer) {
  peer.stage = Stage::kDialling;
  // A single attempt may hang at a host that drops everything; another may take another way.
  const Duration patience =
      std::max<Duration>(std::min(limit(peer) - now(), options_.silence_deadline / 2), std::chrono::milliseconds(1));
  transport_.connect(
      peer.address, patience,
      [this, id = peer.id, alive = std::weak_ptr(alive_)](Result<std::unique_ptr<transport::Connection>> connection) {
        if (alive.expired()) return;
        Peer* dialling = find(id);
        if (dialling == nullptr || dialling->stage != Stage::kDialling) return;
        if (connection.ok()) return greet(*dialling, std::move(connection).value());
        retry(*dialling, connection.status());
      });
  arm();
}

void EndpointState::greet(Peer& peer, std::unique_ptr<transport::Connection> connection) {
  Link& link = add_link(std::move(connection), &peer);
  peer.link = &link;
  peer.stage = Stage::kGreeting;
  peer.reply_by = now() + options_.silence_deadline / 2;
  ++peer.attempt;
  link.hello.nonce = draw_nonce();
  say_hello(peer, link);
  arm();
}

// First without a proof, then, once the other side has asked for it, with one.
void EndpointState::say_hello(Peer& peer, Link& link) {
  const bool proves = link.challenge != Nonce{};
  wire::Hello& hello = link.hello;
  hello = {.session = peer.session_id,
           .job = options_.job,
           .received = peer.session.received(),
           .epoch = options_.epoch,
           .attempt = peer.attempt,
           .from = to_party(peer.as),
           .to = to_party(peer.name),
           .resume = peer.known ? wire::Hello::Resume::kYes : wire::Hello::Resume::kNo,
           .nonce = hello.nonce,
           .key = proves && peer.tells_secret && !peer.known ? peer.secret : kNoSecret};
  if (proves) hello.proof = proof_for(hello, peer.secret, link.challenge);
  transmit(link, {.head = wire::seal({.kind = wire::FrameKind::kHello, .acknowledged = hello.received, .epoch = options_.epoch},
                                     wire::encode(hello), {})});
}

void EndpointState::retry(Peer& peer, Status reason) {
  // Whoever is no peer of this protocol says so each time; damage on the way does not repeat itself.
  const bool again = !peer.last_failure.ok() && peer.last_failure.message() == reason.message();
  peer.last_failure = std::move(reason);
  if (!peer.known && again && peer.last_failure.kind() == ErrorKind::kBadRequest) {
    return end(peer, ErrorKind::kBadRequest, fmt::format("cannot be talked to: {}", peer.last_failure.message()), {});
  }
  peer.stage = Stage::kWaiting;
  ++peer.failures;
  peer.retry_at = now() + backoff(peer.failures, draw(), std::min(kLongestBackoff, options_.silence_deadline / 10));
  arm();
}

void EndpointState::on_reply(Peer& peer, const transport::Frame& frame) {
  Link& link = *peer.link;
  const auto fail = [&](Status status) {
    link.failure = std::move(status);
    link.connection->close();
  };
  if (frame.header.kind == wire::FrameKind::kGoodbye) {
    return end(peer, ErrorKind::kCancelled, fmt::format("said goodbye: {}", wire::printable_reason(frame.payload)), {});
  }
  if (frame.header.kind != wire::FrameKind::kHelloReply)
    return fail(error(ErrorKind::kCorrupt, "a frame before the answer to the hello"));
  const auto reply = wire::decode_hello_reply(frame.body);
  if (!reply.ok()) return fail(reply.status());
  if (reply->session != peer.session_id) return fail(error(ErrorKind::kCorrupt, "an answer to the hello of another session"));
  if (reply->verdict == wire::Verdict::kRefused) {
    return end(peer, ErrorKind::kBadRequest, fmt::format("refused: {}", wire::printable_reason(frame.payload)), {});
  }
  if (reply->verdict == wire::Verdict::kUnknown) {
    return end(peer, ErrorKind::kPeerLost, "does not know this session any more: it was restarted, or it had given this process up",
               {});
  }
  const auto name = to_name(reply->from);
  if (!name.ok()) return fail(name.status());
  if (const auto text = objection(*reply, *name, peer.name, identity()))
    return end(peer, ErrorKind::kBadRequest, fmt::format("is not the right peer: {}", *text), *text);
  if (reply->verdict == wire::Verdict::kProve) {
    if (link.challenge != Nonce{} || reply->nonce == Nonce{})
      return fail(error(ErrorKind::kCorrupt, "a question for a proof that makes no sense"));
    link.challenge = reply->nonce;
    return say_hello(peer, link);
  }
  if (link.challenge == Nonce{} || !same(reply->proof, proof_for(*reply, peer.secret, link.hello, link.challenge)))
    return fail(error(ErrorKind::kCorrupt, "{} accepts without knowing the secret of this session", peer.address_text));
  peer.name = *name;
  attach(peer, link, reply->received);
}

// The listening side.

void EndpointState::on_hello(Link& link, const transport::Frame& frame) {
  const auto stranger = [&](const Status& reason) {
    count_stranger(link, reason);
    link.failure = reason;
    link.connection->close();
  };
  if (link.counted) return;  // refused already
  if (frame.header.kind != wire::FrameKind::kHello) return stranger(error(ErrorKind::kBadRequest, "its first frame is no hello"));
  const auto hello = wire::decode_hello(frame.body);
  if (!hello.ok()) return stranger(hello.status());
  const auto name = to_name(hello->from);
  if (!name.ok()) return stranger(name.status());
  link.hello = *hello;
  judge(link, *name);
}

// A hello that can be read: it is refused, or asked for a proof, or, if it has the right one, accepted. Until then nothing but the
// connection's nonce is kept of it.
void EndpointState::judge(Link& link, const PeerName& name) {
  const wire::Hello& hello = link.hello;
  Peer* const known = find_session(hello.session);
  if (known == nullptr) {
    if (hello.resume == wire::Hello::Resume::kYes) return refuse(link, wire::Verdict::kUnknown, {});
    // The coordinator's welcome has reached the other side first. It tries again, and then this process knows its rank.
    if (!closing_ && awaits_rank(hello.to)) {
      link.counted = true;  // early, but no stranger
      return link.connection->close();
    }
    if (const auto text = refusal(hello, name)) return refuse(link, wire::Verdict::kRefused, *text);
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
  const Secret& secret = known != nullptr ? known->secret : options_.secret != kNoSecret ? options_.secret : hello.key;
  if (secret == kNoSecret || !same(hello.proof, proof_for(hello, secret, link.challenge))) {
    return refuse(link, wire::Verdict::kRefused,
                  fmt::format("{} does not know the secret of {}; only members of the job can talk to {}", name.text(),
                              known != nullptr ? "its session" : "this job", options_.self.text()));
  }
  if (known != nullptr) return resume(*known, link);
  accept(link, name, secret);
}

std::optional<std::string> EndpointState::refusal(const wire::Hello& hello, const PeerName& name) {
  if (closing_) return fmt::format("{} is closing", options_.self.text());
  if (auto text = objection(hello, name, identity())) return text;
  for (const auto& [id, other] : peers_) {
    if (other->known && other->stage != Stage::kEnding && same_process(other->name, name))
      return fmt::format("{} is already in this job at {}", name.text(), other->address_text);
  }
  const Status status = handler_.on_hello(name);
  return status.ok() ? std::nullopt : std::optional(status.message());
}

void EndpointState::accept(Link& link, const PeerName& name, const Secret& secret) {
  Peer& peer = add_peer(name, Stage::kDown);
  peer.session_id = link.hello.session;
  peer.secret = secret;
  peer.attempt = link.hello.attempt;
  peer.address_text = link.connection->peer();
  attach(peer, link, link.hello.received);
}

bool EndpointState::awaits_rank(const wire::Party& wanted) const {
  const auto name = to_name(wanted);
  return name.ok() && options_.self.rank.value == -1 && wanted.rank >= 0 && plays(options_.self.role, name->role);
}

Peer* EndpointState::find_session(std::uint64_t session) {
  for (const auto& [id, peer] : peers_) {
    if (!peer->connecting && peer->session_id == session) return peer.get();
  }
  return nullptr;
}

// A second hello of a session: its connection was cut, or it was connected twice. The newest wins.
void EndpointState::resume(Peer& peer, Link& link) {
  link.peer = &peer;
  link.connection->admit();
  peer.attempt = link.hello.attempt;
  peer.address_text = link.connection->peer();
  if (peer.link == nullptr) return attach(peer, link, link.hello.received);
  if (peer.parked != nullptr) peer.parked->connection->close();
  peer.parked = &link;
  peer.parked_received = link.hello.received;
  peer.link->connection->close();
}

void EndpointState::refuse(Link& link, wire::Verdict verdict, const std::string& reason) {
  if (std::has_single_bit(++counters_.hellos_refused)) {
    log::warn("refused {} ({}): {}", to_name(link.hello.from).value().text(), link.connection->peer(),
              verdict == wire::Verdict::kUnknown ? "its session is not known here" : reason);
  }
  link.counted = true;
  link.text = reason.substr(0, wire::kMaxReason);
  answer(link, {.verdict = verdict}, std::as_bytes(std::span(link.text)));
  // The peer closes when it has read this; if it does not, the transport's deadline for strangers does.
}

void EndpointState::reply(Link& link, const Peer& peer) {
  wire::HelloReply reply{.session = peer.session_id,
                         .job = options_.job,
                         .received = peer.session.received(),
                         .epoch = options_.epoch,
                         .from = to_party(peer.as)};
  reply.proof = proof_for(reply, peer.secret, link.hello, link.challenge);
  answer(link, reply, {});
}

void EndpointState::answer(Link& link, wire::HelloReply reply, std::span<const std::byte> text) {
  if (reply.verdict != wire::Verdict::kAccepted) {
    reply.session = link.hello.session;
    reply.job = options_.job;
    reply.epoch = options_.epoch;
    reply.from = to_party(options_.self);
  }
  transmit(link,
           {.head = wire::seal({.kind = wire::FrameKind::kHelloReply, .acknowledged = reply.received, .epoch = options_.epoch},
                               wire::encode(reply), text),
            .payload = text});
}

// Connections that come and go.

void EndpointState::attach(Peer& peer, Link& link, std::uint64_t received) {
  peer.link = &link;
  link.peer = &peer;
  link.connection->admit();
  if (const Status status = peer.session.on_attached(now(), received); !status.ok()) {
    return end(peer, ErrorKind::kCorrupt, fmt::format("and this process disagree on what was sent: {}", status.message()),
               status.message());
  }
  peer.stage = Stage::kUp;
  if (!peer.connecting) reply(link, peer);
  while (const auto piece = peer.session.outbox().next_resend()) {
    ++counters_.chunks_resent;
    transmit(link, peer.session.chunk(now(), options_.epoch, *piece));
  }
  queue_.resume(peer.lane);
  release(peer);
  if (peer.stage == Stage::kEnding) return;
  if (peer.known) {
    ++counters_.reconnects;
  } else {
    peer.known = true;
    peer.failures = 0;
    handler_.on_peer(peer.id, peer.name);
  }
  pump();
  arm();
}

void EndpointState::on_closed(Link& link, const Status& reason) {
  const auto here = std::find_if(links_.begin(), links_.end(), [&](const auto& owned) { return owned.get() == &link; });
  PACELINE_CHECK(here != links_.end(), "a connection ended twice");
  dead_links_.push_back(std::move(*here));
  links_.erase(here);
  post([this] { dead_links_.clear(); });

  Peer* peer = link.peer;
  const Status why = link.failure.ok() ? reason : link.failure;
  if (peer == nullptr) return count_stranger(link, why);
  if (peer->parked == &link) peer->parked = nullptr;
  if (peer->link == &link) on_link_lost(*peer, why);
}

void EndpointState::count_stranger(Link& link, const Status& reason) {
  if (std::exchange(link.counted, true)) return;
  if (std::has_single_bit(++counters_.strangers_refused))
    log::warn("closed a connection of a stranger, {} ({} so far): {}", link.connection->peer(), counters_.strangers_refused,
              reason.message());
}

void EndpointState::on_link_lost(Peer& peer, const Status& reason) {
  const bool was_up = peer.stage == Stage::kUp;
  if (was_up && (reason.kind() == ErrorKind::kCorrupt || reason.kind() == ErrorKind::kBadRequest)) ++counters_.frames_damaged;
  peer.link = nullptr;
  peer.session.on_detached();
  if (peer.stage == Stage::kEnding) return finish(peer);
  queue_.pause(peer.lane);
  const auto& outbox = peer.session.outbox();
  const std::uint64_t progress = peer.session.received() + outbox.acknowledged();
  if (was_up && progress != peer.progress) peer.failures = 0;
  if (peer.failures == 0) peer.fruitless_since = now();
  peer.progress = progress;
  log::debug("the connection with {} ({}) ended: {}", peer.name.text(), peer.address_text, reason.message());
  release(peer);
  if (peer.stage == Stage::kEnding) return;
  if (peer.known && !outbox.idle() && peer.failures >= kMostFruitless &&
      now() - peer.fruitless_since >= options_.silence_deadline) {
    return end(peer, ErrorKind::kPeerLost,
               fmt::format("was connected {} times without moving anything: {}", peer.failures, reason.message()), {});
  }
  if (peer.parked != nullptr) return attach(peer, *std::exchange(peer.parked, nullptr), peer.parked_received);
  if (peer.connecting) return retry(peer, reason);
  ++peer.failures;
  peer.last_failure = reason;
  peer.stage = Stage::kDown;
  arm();
}

}  // namespace paceline::session
