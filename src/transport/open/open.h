// The one place that knows which transports there are: an address says which one serves it. Adding one is a folder of its own and a
// row in open.cc.
#pragma once

#include <optional>

#include "base/job_key.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/transport.h"

namespace paceline::transport {

class InprocNetwork;

struct OpenOptions {
  std::optional<JobKey> key;           // see SocketOptions
  Duration spin{0};                    // see SocketOptions
  InprocNetwork* network = nullptr;    // not null: among the threads of this process, whatever the address; outlives the call
  std::optional<FaultOptions> faults;  // injects them, for tests
};

// A transport that listens and connects at addresses like `place`, and at no others. Errors: kBadRequest when an option is out of
// range or nothing serves such an address; kIo when the system gives no descriptors.
Result<std::unique_ptr<Transport>> open(const Address& place, const OpenOptions& options = {});

// Removes what killed processes of this user have left of those that met at `meeting`; nothing at which anybody listens.
void remove_left_behind(const Address& meeting);

}  // namespace paceline::transport
