// Who a process is in its job: its role, its rank and which of those that have had it. Hellos say it (wire/hello.h), and everybody
// is called so. Plain values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::wire {

enum class Role : std::uint8_t {
  kCoordinator,
  kWorker,
  kServer,
  kBoth,  // a worker and a server of the same rank in one process, which share its sessions
};
const char* to_string(Role role);
// Whether a process of `role` does the work of `part`: itself, or as one half of kBoth.
bool plays(Role role, Role part);

// Unique in a job. Rank -1: has not got one yet (it is joining); any number of processes may be called so at a time.
struct PeerName {
  Role role = Role::kWorker;
  Rank rank{-1};
  std::uint32_t incarnation = 0;  // which of the processes that have had this rank; 0: not known yet, or any

  auto operator<=>(const PeerName&) const = default;
  std::string text() const;  // "worker 2", "worker 2 with server 2", "coordinator"
  // A coordinator's connections carry no gradients and no values.
  bool takes_data() const { return role != Role::kCoordinator; }
};

// Errors: kBadRequest for a role or a rank that nobody can have.
Status check(const PeerName& name);

// Whether `actual` is whom `expected` means: it plays that role, and has the same rank and incarnation unless none is expected.
// There is one coordinator, whatever its rank.
bool matches(const PeerName& expected, const PeerName& actual);
// Whether both would be one and the same member of a job, because a role and the rank are the same; joining processes (rank -1)
// are different ones.
bool same_process(const PeerName& a, const PeerName& b);
// Whether `joining` may turn out to be `wanted`, once it has its rank.
bool may_become(const PeerName& joining, const PeerName& wanted);

}  // namespace paceline::wire
