// Whoever has connected and wants to take part, but has not been admitted yet: heard only as far as joining needs, and only so many
// at a time, since anybody can connect. Pure; owned by whoever admits them (a coordinator, rank 0 of a meeting).
//
// A joiner says one thing, kJoin, of at most wire::kMaxJoinBytes. When there are too many of them, the one that has had most time
// goes; when they announce too much, the one that announces most. So a crowd of strangers cannot keep an honest process out, which
// is done with joining long before it would be its turn to go.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/endpoint.h"
#include "wire/control.h"
#include "wire/message.h"

namespace paceline::membership {

class Joiners {
 public:
  // Besides one for each place in the job that is free.
  static constexpr std::size_t kMost = 64;

  struct Dropped {
    session::PeerId peer;
    std::string reason;
  };

  // Somebody came, while so many places are free. Who has to go for it, if anybody.
  std::optional<Dropped> on_peer(session::PeerId peer, std::int32_t free_places);
  // Whether a joiner may say this at all. Errors: kBadRequest.
  static Status check(const wire::MessageHead& head);
  // It begins to say something. Returns who has to go for that, or an error: itself.
  Result<std::optional<Dropped>> on_message_begin(session::PeerId peer, const wire::MessageHead& head, std::int32_t free_places);
  // It was admitted, or is gone.
  void remove(session::PeerId peer) { announced_.erase(peer); }

  bool contains(session::PeerId peer) const { return announced_.contains(peer); }
  std::vector<session::PeerId> all() const;  // longest here first

 private:
  std::map<session::PeerId, std::uint64_t> announced_;  // bytes of its kJoin; ids are given in the order of coming
};

}  // namespace paceline::membership
