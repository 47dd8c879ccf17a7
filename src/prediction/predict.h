// How long an iteration of a job would take with a schedule on a cluster: the same cut, the same ledgers of workers and servers and
// the same egress queue as in a real job, stepped in virtual time over a simple model of links. What `--schedule tuned` asks before
// it chooses. Pure and deterministic; free to call from anywhere.
//
// The model. Every node has a link with the same rate each way. A message keeps its sender's link busy for the start-up and then
// for its bytes, chunk by chunk, as the egress queue chooses; meanwhile the sender's processor makes the next message ready, so
// that its time for a message counts only where it is longer than the bytes'. Chunks from several nodes to one arrive one after
// another, and count in their sender's window until they have. A server works on one push at a time, the most urgent first when the
// schedule orders by layer, and answers without delay. What stays on a node takes no time. Batches are those that a worker of the
// job plans once it knows these times and this link (scheduling/batch_plan.h). Synchronisation is bsp; clipping is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "scheduling/schedule.h"
#include "wire/tensor_table.h"

namespace paceline::prediction {

// A model and how long its layers compute; seconds, not negative, by layer.
struct Job {
  wire::TensorTable table;
  std::vector<double> forward, backward;
  double pushed = 1;  // bytes of a gradient over those of its value, above 0 up to 1: less than 1 where elements are dropped
};

struct Cluster {
  enum class Layout {
    kShared,    // node i is worker i and server i, on one link with one queue; as many servers as workers
    kSeparate,  // every worker and every server is a node
  };
  std::int32_t workers = 1, servers = 1;
  Layout layout = Layout::kSeparate;
  BytesPerSecond link;     // of each node, each way; above zero
  double start_up = 0;     // seconds for each message, not negative
  double processing = 0;   // seconds of a node's processor for each message it sends, not negative
  double aggregation = 0;  // seconds that a server spends for each byte pushed to it, updates included, not negative
  // Of each node; nothing: what the schedule's rule comes to on this link, with the chunks of that (scheduling/window.h).
  std::optional<Bytes> window;
  Bytes chunk = scheduling::kLargestChunk;  // with `window`
};

struct Prediction {
  double iteration = 0;    // seconds, once the first iterations are over
  double lower_bound = 0;  // no schedule is faster (cost/lower_bound.h); 0 where workers and servers are separate
  double messages = 0;     // with payload over links, per iteration, of all nodes
};

// kBadRequest: a job whose times do not fit its table, a cluster out of range, a schedule that cannot be planned.
// Time grows with messages, and little with bytes: chunks are as large as a thousandth of the model when that is larger.
Result<Prediction> predict(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster);

}  // namespace paceline::prediction
