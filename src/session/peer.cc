#include "session/peer.h"

namespace paceline::session {

std::span<std::byte> Link::scratch_of(std::size_t bytes) {
  if (scratch.size() < bytes) scratch.resize(bytes);
  return std::span(scratch).first(bytes);
}

Peer* EndpointCommon::find(PeerId peer) {
  const auto found = peers.find(peer);
  return found == peers.end() || found->second->stage == Stage::kEnding ? nullptr : found->second.get();
}

Peer* EndpointCommon::find_session(std::uint64_t session) {
  for (const auto& [id, peer] : peers) {
    if (!peer->connecting && peer->session_id == session) return peer.get();
  }
  return nullptr;
}

}  // namespace paceline::session
