// The seats of a job, and whether a session with the process of each has begun. A process with several seats is one peer for all of
// them. Pure; belongs to its Member.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "wire/control.h"

namespace paceline::runtime {

class Peers {
 public:
  // Who takes part in the job.
  void on_welcome(const wire::Welcome& welcome);
  // In the process that the coordinator has welcomed under this name.
  bool takes_part(const wire::PeerName& name) const;
  // Who the process with these seats is; nothing: there is no such seat.
  std::optional<wire::PeerName> named(wire::Roles roles, Rank rank) const;
  std::string text() const;  // "2 workers and 1 servers"

  // A session with it has begun; is over.
  void add(const wire::PeerName& name) { set(name, true); }
  void remove(const wire::PeerName& name) { set(name, false); }
  bool all_connected(wire::Role role) const;

 private:
  struct Known {
    std::uint32_t incarnation = 0;  // 0: the welcome does not say
    bool connected = false;
  };
  void set(const wire::PeerName& name, bool connected);

  std::map<std::pair<wire::Role, Rank>, Known> seats_;
};

}  // namespace paceline::runtime
