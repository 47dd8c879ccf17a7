#include "membership/joiners.h"

#include <algorithm>
#include <numeric>

namespace paceline::membership {

using session::PeerId;

std::optional<Joiners::Dropped> Joiners::on_peer(PeerId peer, std::int32_t free_places) {
  announced_.emplace(peer, 0);
  if (announced_.size() <= kMost + static_cast<std::size_t>(free_places)) return std::nullopt;
  const PeerId oldest = announced_.begin()->first;
  announced_.erase(oldest);
  return Dropped{oldest, "too many others want to join; it was there longest without joining"};
}

Status Joiners::check(const wire::MessageHead& head) {
  if (head.kind != wire::MessageKind::kJoin || head.payload_bytes == 0)
    return error(ErrorKind::kBadRequest, "whoever has not joined yet can only join");
  if (head.payload_bytes > wire::kMaxJoinBytes)
    return error(ErrorKind::kBadRequest, "a request to join of {} bytes; at most {} are legal", head.payload_bytes,
                 wire::kMaxJoinBytes);
  return {};
}

Result<std::optional<Joiners::Dropped>> Joiners::on_message_begin(PeerId peer, const wire::MessageHead& head,
                                                                  std::int32_t free_places) {
  const auto here = announced_.find(peer);
  PACELINE_CHECK(here != announced_.end(), "peer {} is no joiner", peer);
  PACELINE_RETURN_IF_ERROR(check(head));
  if (here->second > 0) return error(ErrorKind::kBadRequest, "whoever has not joined yet can only join, once");
  here->second = head.payload_bytes;
  const auto total = std::accumulate(announced_.begin(), announced_.end(), std::uint64_t{0},
                                     [](std::uint64_t sum, const auto& joiner) { return sum + joiner.second; });
  if (total <= wire::kMaxJoinBytes * (static_cast<std::uint64_t>(free_places) + 1)) return std::optional<Dropped>();
  const auto largest = std::ranges::max_element(announced_, {}, [](const auto& joiner) { return joiner.second; });
  const std::string reason = "too many others want to join; it asks for most memory";
  if (largest == here) return error(ErrorKind::kOverloaded, "{}", reason);
  const Dropped dropped{largest->first, reason};
  announced_.erase(largest);
  return std::optional(dropped);
}

std::vector<PeerId> Joiners::all() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, bytes] : announced_) peers.push_back(peer);
  return peers;
}

}  // namespace paceline::membership
