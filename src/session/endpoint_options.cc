#include "base/text.h"
#include "session/endpoint.h"
#include "wire/frame.h"

namespace paceline::session {

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

Result<EndpointOptions> validated(EndpointOptions options) {
  constexpr Duration kShortest = std::chrono::milliseconds(10), kLongest = std::chrono::hours(24);
  constexpr Bytes kLargestWindow{std::int64_t{1} << 40};
  constexpr Bytes kMostChunk{wire::kMaxPayload / 2};  // with a unit's tail it is up to half as large again
  if (options.self.role > Role::kBoth)
    return error(ErrorKind::kBadRequest, "the role is {}; it is coordinator, worker, server or both",
                 static_cast<int>(options.self.role));
  if (options.self.rank.value < -1)
    return error(ErrorKind::kBadRequest, "the rank is {}; it is at least 0, or -1 before one is given", options.self.rank.value);
  if (options.silence_deadline < kShortest || options.silence_deadline > kLongest) {
    return error(ErrorKind::kBadRequest, "the silence deadline is {}; it is between {} and {}", to_text(options.silence_deadline),
                 to_text(kShortest), to_text(kLongest));
  }
  if (options.order != Order::kByLayer && options.order != Order::kFirstInFirstOut) {
    return error(ErrorKind::kBadRequest, "the order is {}; it is by layer or first in, first out", static_cast<int>(options.order));
  }
  if (options.chunk.count < 1 || options.chunk > kMostChunk) {
    return error(ErrorKind::kBadRequest, "the chunk is {} bytes; it is between 1 and {}", options.chunk.count, kMostChunk.count);
  }
  if (options.window < options.chunk * 2 || options.window > kLargestWindow) {
    return error(ErrorKind::kBadRequest, "the window is {} bytes; it is between two chunks, {} bytes, and {}", options.window.count,
                 2 * options.chunk.count, kLargestWindow.count);
  }
  return options;
}

}  // namespace paceline::session
