// What a process is in its job: the seats that it has. Hellos say it (wire/hello.h), and everybody is called so. And which seats
// are at the ends of a channel. A new role is a row of the enum, its name in seat.cc, and the channels that it has an end of. Plain
// values; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/message.h"

namespace paceline::wire {

// What is done in a seat. The coordinator has no other one; each other role is a bit, and a hello's byte has the bits of all seats
// of its process.
enum class Role : std::uint8_t { kCoordinator, kWorker, kServer };
// Of which a job has as many as it has ranks of them.
inline constexpr std::array kRankedRoles = {Role::kWorker, Role::kServer};
const char* to_string(Role role);

// A place in a job.
struct Seat {
  Role role;
  Rank rank{-1};
  std::uint32_t incarnation = 0;  // which of the processes that have had this seat; 0: not known yet, or any

  auto operator<=>(const Seat&) const = default;
  std::string text() const;  // "worker 2", "coordinator"
};

// What a process does: a list of roles without repetition.
class Roles {
 public:
  constexpr Roles(Role role) : byte_(static_cast<std::uint8_t>(role)) {}  // NOLINT: a role is a list of one
  constexpr explicit Roles(std::uint8_t byte) : byte_(byte) {}

  constexpr std::uint8_t byte() const { return byte_; }
  constexpr bool legal() const { return byte_ < 1U << kRankedRoles.size(); }
  // All of these.
  constexpr bool hold(Roles roles) const { return roles.byte_ == 0 ? byte_ == 0 : (byte_ & roles.byte_) == roles.byte_; }
  std::vector<Role> list() const;  // in the order of the enum
  std::string text() const;        // "worker with server"

  auto operator<=>(const Roles&) const = default;

 private:
  std::uint8_t byte_;
};
constexpr Roles operator|(Roles a, Roles b) { return Roles(static_cast<std::uint8_t>(a.byte() | b.byte())); }
constexpr Roles operator|(Role a, Role b) { return Roles(a) | Roles(b); }

// A process by its seats, which have one rank and one incarnation. Unique in a job. Rank -1: has not got one yet (it is joining);
// any number of processes may be called so at a time.
struct PeerName {
  Roles roles = Role::kWorker;
  Rank rank{-1};
  std::uint32_t incarnation = 0;

  auto operator<=>(const PeerName&) const = default;
  std::vector<Seat> seats() const;
  std::optional<Rank> rank_as(Role role) const;  // nothing: it has no such seat
  std::string text() const;                      // "worker 2", "worker 2 with server 2", "coordinator"
  // A coordinator's connections carry no gradients and no values.
  bool takes_data() const { return !roles.hold(Role::kCoordinator); }
};

inline constexpr PeerName kTheCoordinator{Role::kCoordinator, Rank{0}};

// Errors: kBadRequest for roles or a rank that nobody can have.
Status check(const PeerName& name);

// Whether `actual` is whom `expected` means: it has those seats, of the same rank and incarnation unless none is expected. There is
// one coordinator, whatever its rank.
bool matches(const PeerName& expected, const PeerName& actual);
// Whether both would be one and the same member of a job, because they have a seat in common; joining processes (rank -1) are
// different ones.
bool same_process(const PeerName& a, const PeerName& b);
// Whether `joining` may turn out to be `wanted`, once it has its rank.
bool may_become(const PeerName& joining, const PeerName& wanted);

// Which seats are at the ends of a channel. Control messages pass between the coordinator and everybody.
struct ChannelEnds {
  Role from, to;
};
ChannelEnds ends_of(Channel channel);
// Whose seats listen in a job with so many servers: each other process has a session with all of them.
constexpr Role hub_of(std::size_t servers) { return servers > 0 ? Role::kServer : Role::kWorker; }
std::vector<Channel> channels_of(Role hub);  // which have an end there
// Of these, by which a process with some seats sends to one with others.
std::vector<Channel> channels_between(Roles from, Roles to, Role hub);

}  // namespace paceline::wire
