#include "transport/open/open.h"

#include <algorithm>

#include "transport/inproc/inproc_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/unix/unix_transport.h"

namespace paceline::transport {
namespace {

struct Backend {
  std::string_view scheme;  // of its addresses
  Result<std::unique_ptr<Transport>> (*open)(const SocketOptions& options);
  void (*remove_left_behind)(const Address& meeting);
};
constexpr Backend kBackends[] = {
    {"", try_make_tcp_transport, [](const Address&) {}},
    {"unix", try_make_unix_transport, remove_unix_left_behind},
};

Result<std::unique_ptr<Transport>> open_plain(const Address& place, const OpenOptions& options) {
  if (options.network != nullptr) return options.network->make_transport();
  const auto backend = std::ranges::find(kBackends, place.scheme(), &Backend::scheme);
  if (backend == std::end(kBackends))
    return error(ErrorKind::kBadRequest, "{}: nothing here connects to addresses of this form", place.text());
  return backend->open({.spin = options.spin, .key = options.key});
}

}  // namespace

void remove_left_behind(const Address& meeting) {
  const auto backend = std::ranges::find(kBackends, meeting.scheme(), &Backend::scheme);
  if (backend != std::end(kBackends)) backend->remove_left_behind(meeting);
}

Result<std::unique_ptr<Transport>> open(const Address& place, const OpenOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(auto transport, open_plain(place, options));
  if (!options.faults) return transport;
  return std::unique_ptr<Transport>(make_faulty_transport(std::move(transport), *options.faults));
}

}  // namespace paceline::transport
