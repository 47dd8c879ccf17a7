// The seats of a job, and who has them. Pure; belongs to a Roster.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "session/endpoint.h"
#include "wire/seat.h"

namespace paceline::membership {

class SeatTable {
 public:
  SeatTable(std::int32_t workers, std::int32_t servers) : workers_(workers), servers_(servers) {}

  // The seats of the name are the peer's; are nobody's.
  void take(const wire::PeerName& name, session::PeerId peer);
  void free(const wire::PeerName& name);

  std::optional<session::PeerId> holder(wire::Role role, Rank rank) const;  // nothing: nobody, or there is no such seat
  // The lowest rank at which a process can have seats of these roles; nothing: there is none.
  std::optional<Rank> free_rank(wire::Roles roles) const;
  bool is_full(wire::Role role) const;
  std::int32_t places(wire::Roles roles) const;  // how many processes with seats of these roles there can be
  std::int32_t free_places() const;              // seats that nobody has

  std::string text(wire::Roles roles) const;  // "4 workers and 2 servers"
  std::string missing() const;                // "2 of 4 workers and 1 of 2 servers have joined"
  std::string absent() const;                 // "worker 2, worker 3, server 1": the first 8 who have not

 private:
  std::int32_t count(wire::Role role) const;

  std::int32_t workers_, servers_;
  std::map<std::pair<wire::Role, Rank>, session::PeerId> holders_;
};

}  // namespace paceline::membership
