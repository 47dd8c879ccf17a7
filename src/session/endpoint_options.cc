#include "base/text.h"
#include "session/endpoint.h"
#include "wire/frame.h"

namespace paceline::session {

Result<EndpointOptions> validated(EndpointOptions options) {
  constexpr Duration kShortest = std::chrono::milliseconds(10), kLongest = std::chrono::hours(24);
  constexpr Bytes kLargestWindow{std::int64_t{1} << 40};
  constexpr Bytes kMostChunk{wire::kMaxPayload / 2};  // with a unit's tail it is up to half as large again
  PACELINE_RETURN_IF_ERROR(check(options.self));
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
