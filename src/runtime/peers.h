// Whom a member of a job has sessions with, by part and rank, and what waits for those who have not come yet. A process that plays
// both parts is one peer under two names, one session for all that passes; the channel of a message says between which parts.
// Pure; belongs to its Member.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "session/endpoint.h"
#include "wire/control.h"

namespace paceline::runtime {

inline constexpr std::array<session::Role, 2> kParts = {session::Role::kWorker, session::Role::kServer};

class Peers {
 public:
  // A message for somebody.
  struct Held {
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket;
  };
  // The ends of a channel. Requires another one than kControl, which is the coordinator's.
  struct Way {
    session::Role from, to;
  };
  static Way way_of(wire::Channel channel);

  // Who takes part in the job.
  void on_welcome(const wire::Welcome& welcome);
  // In the process that the coordinator has welcomed under this name.
  bool takes_part(const session::PeerName& name) const;
  std::uint32_t incarnation_of(session::Role part, std::size_t rank) const;  // 0: the welcome does not say
  std::size_t count(session::Role part) const { return of(part).ranks.size(); }
  std::size_t connected(session::Role part) const;

  // A session has begun. Returns what has waited for it.
  std::vector<Held> add(session::PeerId peer, const session::PeerName& name);
  void remove(session::PeerId peer, const session::PeerName& name);
  // Nothing: it has not come yet, or is lost.
  std::optional<session::PeerId> find(const session::PeerName& name) const;
  // A message for one that has not come: it waits, but for one that is lost.
  void hold(const session::PeerName& name, const Held& message);
  // Nothing: there is no such session.
  std::optional<session::PeerName> name_of(session::PeerId peer) const;
  // Of the ends of a channel, that of the peer, who sends or receives there.
  session::PeerName sender(session::PeerId peer, wire::Channel channel) const;
  session::PeerName receiver(session::PeerId peer, wire::Channel channel) const;

 private:
  struct Part {
    std::vector<std::optional<session::PeerId>> ranks;
    std::vector<std::uint32_t> incarnations;
  };
  const Part& of(session::Role part) const { return parts_[part == session::Role::kWorker ? 0 : 1]; }
  Part& of(session::Role part) { return parts_[part == session::Role::kWorker ? 0 : 1]; }

  std::array<Part, kParts.size()> parts_;
  std::map<session::PeerId, session::PeerName> names_;
  std::map<session::PeerName, std::vector<Held>> held_;
  std::set<session::PeerName> lost_;
};

}  // namespace paceline::runtime
