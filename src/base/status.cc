#include "base/status.h"

namespace paceline {

const char* code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kBadRequest:
      return "bad-request";
    case ErrorKind::kPeerLost:
      return "peer-lost";
    case ErrorKind::kDeadline:
      return "deadline";
    case ErrorKind::kCancelled:
      return "cancelled";
    case ErrorKind::kOverloaded:
      return "overloaded";
    case ErrorKind::kCorrupt:
      return "corrupt";
    case ErrorKind::kIo:
      return "io";
  }
  return "unknown";
}

}  // namespace paceline
