// Who is at the two ends of each channel (wire/message.h) of a process: its own end, which sends there or is called with what
// comes, and by rank the peers at the other one. So services talk to each other by channel and rank, and whoever makes them knows
// who plays which part. Belongs to an Endpoint; what no channel takes is its handler's.
//
// Threads: belongs to the endpoint's loop. Memory: nothing is allocated per message once warm.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "session/endpoint.h"

namespace paceline::session {

// Sends messages by rank.
class Sender {
 public:
  virtual ~Sender() = default;
  // To that rank of those at the other end of the kind's channel. The payload (head.payload_bytes bytes) is borrowed until
  // ChannelEnd::on_delivered(to, channel, ticket) or on_peer_lost. Calls nothing back inside the call. A message to a peer that is
  // lost is dropped; one to a peer that has not come yet waits for it. Of a collective's messages of one layer to several peers
  // those with the smaller ticket leave first, but for small ones (flow.h).
  virtual void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) = 0;
  // The shortest way there and back so far, of any link.
  virtual std::optional<Duration> round_trip() const { return std::nullopt; }
};

// This process's end of channels.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  // A message with a payload begins: its place, of exactly head.payload_bytes bytes, valid until on_message or on_peer_lost. An
  // error refuses the peer: its session ends.
  virtual Result<std::span<std::byte>> on_message_begin(Rank from, const wire::MessageHead& head) = 0;
  // The whole message is there, once. The only call for a message without payload.
  virtual void on_message(Rank from, const wire::MessageHead& head, std::span<std::byte> payload) = 0;
  // The message sent with `ticket` has been received.
  virtual void on_delivered(Rank to, wire::Channel channel, std::uint64_t ticket) = 0;
  // Nothing comes from that peer any more and nothing borrowed for it is in use. Once for each channel with it, before
  // EndpointHandler::on_peer_lost.
  virtual void on_peer_lost(Rank peer, wire::Channel channel, const Status& reason) = 0;
};

class Channels final : public Sender, public EndpointHandler {
 public:
  // Both outlive it.
  Channels(Endpoint& endpoint, EndpointHandler& handler) : endpoint_(endpoint), handler_(handler) {}

  // Of this process the ends of a channel: who sends there, and who is called with what comes; null: nobody here. They outlive it.
  void open(wire::Channel channel, ChannelEnd* sends, ChannelEnd* receives);
  // The peer, once it has a session, takes what is sent there to `rank`: also what has waited for it.
  void reach(wire::Channel channel, Rank rank, PeerId peer);
  // What comes from the peer in the channel comes from `rank`.
  void hear(wire::Channel channel, Rank rank, PeerId peer);

  // Sender
  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override;
  std::optional<Duration> round_trip() const override { return endpoint_.link().round_trip; }

  // EndpointHandler
  Status on_hello(const wire::PeerName& name) override { return handler_.on_hello(name); }
  void on_peer(PeerId peer, const wire::PeerName& name) override { handler_.on_peer(peer, name); }
  Result<std::span<std::byte>> on_message_begin(PeerId peer, const wire::MessageHead& head) override;
  void on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(PeerId peer, wire::Channel channel, std::uint64_t ticket) override;
  std::string about(const wire::MessageHead& head) const override { return handler_.about(head); }
  void on_peer_lost(PeerId peer, const wire::PeerName& name, const Status& reason) override;

 private:
  struct Held {
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket;
  };
  struct Reached {
    PeerId peer = 0;  // 0: it has not come, or is lost
    bool lost = false;
    std::vector<Held> held;
  };
  struct Channel {
    ChannelEnd *sends = nullptr, *receives = nullptr;
    std::vector<Reached> reached;     // by rank
    std::map<PeerId, Rank> to, from;  // who takes what is sent there, and who sends there
  };

  Channel& at(wire::Channel channel) { return channels_[static_cast<std::size_t>(channel)]; }
  Reached& at(Channel& channel, Rank rank);

  Endpoint& endpoint_;
  EndpointHandler& handler_;
  std::array<Channel, wire::kChannels> channels_;
};

}  // namespace paceline::session
