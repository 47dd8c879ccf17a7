// How parameter servers and workers see the network: an Outbox they send through and a MessageSink the process's dispatcher calls.
// The runtime binds both to a session::Endpoint; tests and a worker that is its own server bind them to memory. Everything here
// belongs to one loop and is called on its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "session/endpoint.h"
#include "wire/message.h"

namespace paceline::exchange {

class Outbox {
 public:
  virtual ~Outbox() = default;

  // Sends a message of head.payload_bytes bytes. The payload is borrowed until the sender's on_delivered(ticket), or until its
  // on_peer_lost. Calls nothing back inside the call. A message to a peer that is lost is dropped.
  virtual void send_to_worker(Rank worker, const wire::MessageHead& head, std::span<const std::byte> payload,
                              std::uint64_t ticket) = 0;
  virtual void send_to_server(Rank server, const wire::MessageHead& head, std::span<const std::byte> payload,
                              std::uint64_t ticket) = 0;
  // The shortest way there and back so far, of any link.
  virtual std::optional<Duration> round_trip() const { return std::nullopt; }
};

class MessageSink {
 public:
  virtual ~MessageSink() = default;

  // A message with a payload begins: its place, of exactly head.payload_bytes bytes, valid until on_message or on_peer_lost. An
  // error refuses the peer: its session ends.
  virtual Result<std::span<std::byte>> on_message_begin(const session::PeerName& from, const wire::MessageHead& head) = 0;
  // The whole message is there, once. The only call for a message without payload.
  virtual void on_message(const session::PeerName& from, const wire::MessageHead& head, std::span<std::byte> payload) = 0;
  // The message sent with `ticket` has been received.
  virtual void on_delivered(const session::PeerName& to, std::uint64_t ticket) = 0;
  // Nothing comes from `peer` any more and nothing borrowed for it is in use.
  virtual void on_peer_lost(const session::PeerName& peer, const Status& reason) = 0;
};

}  // namespace paceline::exchange
