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

inline constexpr std::array<wire::Role, 2> kParts = {wire::Role::kWorker, wire::Role::kServer};

// A channel, and who sends and receives there.
struct Way {
  wire::Channel channel;
  wire::Role from, to;
};
inline constexpr Way kWithServers[] = {
    {wire::Channel::kGradients, wire::Role::kWorker, wire::Role::kServer},
    {wire::Channel::kValues, wire::Role::kServer, wire::Role::kWorker},
    {wire::Channel::kPace, wire::Role::kServer, wire::Role::kWorker},
    {wire::Channel::kServers, wire::Role::kServer, wire::Role::kServer},
};
inline constexpr Way kAmongWorkers[] = {{wire::Channel::kCollective, wire::Role::kWorker, wire::Role::kWorker}};

class Peers {
 public:
  // Who takes part in the job.
  void on_welcome(const wire::Welcome& welcome);
  // In the process that the coordinator has welcomed under this name.
  bool takes_part(const wire::PeerName& name) const;
  std::uint32_t incarnation_of(wire::Role part, std::size_t rank) const;  // 0: the welcome does not say
  std::size_t count(wire::Role part) const { return of(part).count; }

  // A session with it has begun; is over.
  void add(const wire::PeerName& name);
  void remove(const wire::PeerName& name);
  std::size_t connected(wire::Role part) const { return of(part).connected.size(); }

 private:
  struct Part {
    std::size_t count = 0;
    std::vector<std::uint32_t> incarnations;
    std::set<Rank> connected;
  };
  const Part& of(wire::Role part) const { return parts_[part == wire::Role::kWorker ? 0 : 1]; }
  Part& of(wire::Role part) { return parts_[part == wire::Role::kWorker ? 0 : 1]; }

  std::array<Part, kParts.size()> parts_;
};

}  // namespace paceline::runtime
