#include "wire/peer_name.h"

#include <fmt/format.h>

namespace paceline::wire {

const char* to_string(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator";
    case Role::kWorker:
      return "worker";
    case Role::kServer:
      return "server";
    case Role::kBoth:
      return "worker with server";
  }
  return "unknown role";
}

bool plays(Role role, Role part) {
  return role == part || (role == Role::kBoth && (part == Role::kWorker || part == Role::kServer));
}

std::string PeerName::text() const {
  if (role == Role::kCoordinator) return "coordinator";
  if (rank.value == -1) return fmt::format("{} without a rank yet", to_string(role));
  if (role == Role::kBoth) return fmt::format("worker {0} with server {0}", rank.value);
  return fmt::format("{} {}", to_string(role), rank.value);
}

Status check(const PeerName& name) {
  if (name.role > Role::kBoth)
    return error(ErrorKind::kBadRequest, "the role is {}; it is coordinator, worker, server or both", static_cast<int>(name.role));
  if (name.rank.value < -1)
    return error(ErrorKind::kBadRequest, "the rank is {}; it is at least 0, or -1 before one is given", name.rank.value);
  return {};
}

bool matches(const PeerName& expected, const PeerName& actual) {
  if (!plays(actual.role, expected.role)) return false;
  if (expected.incarnation != 0 && expected.incarnation != actual.incarnation) return false;
  return expected.role == Role::kCoordinator || expected.rank.value == -1 || expected.rank == actual.rank;
}

bool same_process(const PeerName& a, const PeerName& b) {
  if (!plays(a.role, b.role) && !plays(b.role, a.role)) return false;
  return a.role == Role::kCoordinator || (a.rank == b.rank && a.rank.value != -1);
}

bool may_become(const PeerName& joining, const PeerName& wanted) {
  return joining.rank.value == -1 && wanted.rank.value >= 0 && plays(joining.role, wanted.role);
}

}  // namespace paceline::wire
