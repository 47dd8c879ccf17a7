// Whether this process may make network namespaces and shaped links, and if not, which right is missing.
#pragma once

#include <string>

#include "base/status.h"

namespace paceline::lab {

struct Rights {
  bool namespaces = false;      // itself, or as root of a user namespace of its own
  bool user_namespace = false;  // only the latter; processors cannot be limited then
  std::string reason;           // why, or why not
  std::string ip, tc;           // paths of the two programs of iproute2; "" = not installed
};

// Looks only.
Rights look_up_rights();

// Enters a user namespace where that is the only way; else changes nothing. Call before the process starts threads. Errors:
// kBadRequest that names what is missing and what to do.
Status acquire_rights();

}  // namespace paceline::lab
