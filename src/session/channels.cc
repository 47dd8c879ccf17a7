#include "session/channels.h"

#include <new>
#include <utility>

namespace paceline::session {

void Channels::open(wire::Channel channel, ChannelEnd* sends, ChannelEnd* receives) {
  at(channel).sends = sends;
  at(channel).receives = receives;
}

Channels::Reached& Channels::at(Channel& channel, Rank rank) {
  const auto place = static_cast<std::size_t>(rank.value);
  if (place >= channel.reached.size()) channel.reached.resize(place + 1);
  return channel.reached[place];
}

void Channels::reach(wire::Channel channel, Rank rank, PeerId peer) {
  at(channel).to[peer] = rank;
  Reached& reached = at(at(channel), rank);
  reached.peer = peer;
  for (const Held& held : std::exchange(reached.held, {})) endpoint_.send(peer, held.head, held.payload, held.ticket);
}

void Channels::hear(wire::Channel channel, Rank rank, PeerId peer) { at(channel).from[peer] = rank; }

void Channels::send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) {
  endpoint_.tell(wire::Happening::kQueued, to, head);
  Reached& reached = at(at(channel_of(head.kind)), to);
  if (reached.peer != 0) return endpoint_.send(reached.peer, head, payload, ticket);
  if (!reached.lost) reached.held.push_back({head, payload, ticket});
}

// Memory that lacks ends the session, whose peer hears why, and not the process.
Result<std::span<std::byte>> Channels::on_message_begin(PeerId peer, const wire::MessageHead& head) try {
  const Channel& channel = at(channel_of(head.kind));
  const auto from = channel.from.find(peer);
  if (channel.receives == nullptr || from == channel.from.end()) return handler_.on_message_begin(peer, head);
  return channel.receives->on_message_begin(from->second, head);
} catch (const std::bad_alloc&) {
  return error(ErrorKind::kOverloaded, "there is no memory for its {} bytes", head.payload_bytes);
}

void Channels::on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
  const Channel& channel = at(channel_of(head.kind));
  const auto from = channel.from.find(peer);
  if (channel.receives == nullptr || from == channel.from.end()) return handler_.on_message(peer, head, payload);
  endpoint_.tell(wire::Happening::kArrived, from->second, head);
  channel.receives->on_message(from->second, head, payload);
}

void Channels::on_delivered(PeerId peer, wire::Channel name, std::uint64_t ticket) {
  const Channel& channel = at(name);
  const auto to = channel.to.find(peer);
  if (channel.sends == nullptr || to == channel.to.end()) return handler_.on_delivered(peer, name, ticket);
  channel.sends->on_delivered(to->second, name, ticket);
}

void Channels::on_peer_lost(PeerId peer, const wire::PeerName& name, const Status& reason) {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = channels_[i];
    const auto of = static_cast<wire::Channel>(i);
    const auto to = channel.to.extract(peer), from = channel.from.extract(peer);
    if (!to.empty()) channel.reached[static_cast<std::size_t>(to.mapped().value)] = {.peer = 0, .lost = true, .held = {}};
    if (!to.empty() && channel.sends != nullptr) channel.sends->on_peer_lost(to.mapped(), of, reason);
    const bool told = !to.empty() && channel.sends == channel.receives;
    if (!from.empty() && channel.receives != nullptr && !told) channel.receives->on_peer_lost(from.mapped(), of, reason);
  }
  handler_.on_peer_lost(peer, name, reason);
}

}  // namespace paceline::session
