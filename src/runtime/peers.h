// Who takes part in a job, by part and rank, which of them have come, and which channels are between the parts. A process that
// plays both parts is one peer for both. Pure; belongs to its Member.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "session/endpoint.h"
#include "wire/control.h"

namespace paceline::runtime {

inline constexpr std::array<session::Role, 2> kParts = {session::Role::kWorker, session::Role::kServer};

// A channel, and who sends and receives there.
struct Way {
  wire::Channel channel;
  session::Role from, to;
};
inline constexpr Way kWithServers[] = {
    {wire::Channel::kGradients, session::Role::kWorker, session::Role::kServer},
    {wire::Channel::kValues, session::Role::kServer, session::Role::kWorker},
    {wire::Channel::kPace, session::Role::kServer, session::Role::kWorker},
    {wire::Channel::kServers, session::Role::kServer, session::Role::kServer},
};
inline constexpr Way kAmongWorkers[] = {{wire::Channel::kCollective, session::Role::kWorker, session::Role::kWorker}};

class Peers {
 public:
  // Who takes part in the job.
  void on_welcome(const wire::Welcome& welcome);
  // In the process that the coordinator has welcomed under this name.
  bool takes_part(const session::PeerName& name) const;
  std::uint32_t incarnation_of(session::Role part, std::size_t rank) const;  // 0: the welcome does not say
  std::size_t count(session::Role part) const { return of(part).count; }

  // A session with it has begun; is over.
  void add(const session::PeerName& name);
  void remove(const session::PeerName& name);
  std::size_t connected(session::Role part) const { return of(part).connected.size(); }

 private:
  struct Part {
    std::size_t count = 0;
    std::vector<std::uint32_t> incarnations;
    std::set<Rank> connected;
  };
  const Part& of(session::Role part) const { return parts_[part == session::Role::kWorker ? 0 : 1]; }
  Part& of(session::Role part) { return parts_[part == session::Role::kWorker ? 0 : 1]; }

  std::array<Part, kParts.size()> parts_;
};

}  // namespace paceline::runtime
