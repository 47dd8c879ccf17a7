// Chunks between two loops of the transport, each on a thread of its own.
#pragma once

#include <optional>
#include <vector>

#include "base/job_key.h"
#include "base/quantity.h"
#include "base/status.h"
#include "bench/transport/plain_socket.h"
#include "transport/transport.h"

namespace paceline::bench {

using Chunks = std::vector<std::vector<std::byte>>;
// `message` random bytes in pieces of `chunk`.
Chunks message_of(Bytes message, Bytes chunk);

enum class Traffic {
  kStream,      // one way
  kBothWays,    // a stream each way at once, over a connection each
  kRoundTrips,  // one chunk there and back, then the next
};

struct LoopsRun {
  Traffic traffic = Traffic::kStream;
  const Chunks& chunks;   // sent in turn
  std::size_t count = 0;  // of each stream
  Ends ends{};
  std::optional<JobKey> key{};
  transport::Plane plane = transport::Plane::kControl;
};

struct LoopsTook {
  Duration connecting, moving;  // the first connection; all chunks, to the answer that they are there
};

// Errors: kCorrupt when bytes arrived wrong, kIo, kDeadline.
Result<LoopsTook> run_loops(const LoopsRun& run);

// Of this process so far.
double cpu_seconds();

}  // namespace paceline::bench
