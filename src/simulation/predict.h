// How long an iteration of a job would take with a schedule on a cluster: the same cut, the same ledgers of workers and servers and
// the same egress queue as in a real job, stepped in virtual time over a simple model of links. What `--schedule tuned` asks before
// it chooses. Pure and deterministic; free to call from anywhere.
//
// The model. Every node has a link with a rate of its own, the same each way. A message keeps its sender's link busy for the
// start-up and then for its bytes, chunk by chunk, as the egress queue chooses; meanwhile the sender's processor makes the next
// message ready, so that its time for a message counts only where it is longer than the bytes'. Chunks from several nodes to one
// arrive one after another, no faster than that one's link, and count in their sender's window until they have. A server works on
// one push at a time, the most urgent first when the schedule orders by layer, and answers without delay; so do predicted barriers.
// What stays on a node takes no time. Batches are those that a worker of the job plans once it knows its times and its link
// (scheduling/batch_plan.h). Workers may compute at speeds of their own, and the model of synchronisation says how far each goes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/compute_speed.h"
#include "scheduling/schedule.h"
#include "sync/sync_options.h"
#include "wire/tensor_table.h"

namespace paceline::simulation {

// A model and how long its layers compute; seconds, not negative, by layer.
struct Job {
  wire::TensorTable table;
  std::vector<double> forward, backward;
  double pushed = 1;  // bytes of a gradient over those of its value, above 0 up to 1: less than 1 where elements are dropped
  sync::SyncOptions sync;
  bool holds_updates = false;  // until those of all servers are there: with clipping, and where iterations may be skipped
  job::ComputeSpeed speed;     // the layers' times are those of a worker of speed 1
};

struct Cluster {
  enum class Layout {
    kShared,    // node i is worker i and server i, on one link with one queue; as many servers as workers
    kSeparate,  // every worker and every server is a node
  };
  std::int32_t workers = 1, servers = 1;
  Layout layout = Layout::kSeparate;
  BytesPerSecond link;                // of each node, each way; above zero
  std::vector<BytesPerSecond> links;  // where they differ: of each node, first the workers', then those of separate servers
  // Network cards that the nodes are behind in turn, each of the rate `link`; 0: every node has its own. What stays behind a card
  // does not use it. Only where links do not differ.
  std::int32_t cards = 0;
  double start_up = 0;     // seconds for each message, not negative
  double processing = 0;   // seconds of a node's processor for each message it sends, not negative
  double aggregation = 0;  // seconds that a server spends for each byte pushed to it, updates included, not negative
  // Of each node; nothing: what the schedule's rule comes to on this link, with the chunks of that (scheduling/window.h).
  std::optional<Bytes> window;
  Bytes chunk = scheduling::kLargestChunk;  // with `window`
};

// Seconds of processor time that a message costs its two ends, however fast the link is: slices of 20 KB took 1.2 s more for each
// GB than slices of 90 KB (docs/results/2026-11-link.md).
inline constexpr double kUsualProcessing = 30e-6;

struct Prediction {
  // Seconds, once the first iterations are over; of a schedule that orders nothing by layer more may pass until all are as long
  // (predict_settled). Where workers do different numbers of iterations: those in which all together do as many mini-batches as
  // there are workers.
  double iteration = 0;
  // No schedule is faster (cost/lower_bound.h); 0 where that is not known: separate servers, links that differ or share cards, a
  // pace that is uneven or random. With workers of different speeds only computing and what a link carries count.
  double lower_bound = 0;
  double messages = 0;  // with payload over links, per iteration, of all nodes
};

// How many iterations of each worker predict() steps: more where workers need some to find their pace, and where it varies.
Iteration predicted_iterations(const Job& job);

// kBadRequest: a job whose times or speeds do not fit it, a cluster out of range, a schedule that cannot be planned, held updates
// with another model than bsp. Time grows with messages, and little with bytes: chunks are as large as a thousandth of the model
// when that is larger.
Result<Prediction> predict(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster);

// The seconds of an iteration once three are equally long, or the mean of some that never are: where messages are first come, first
// served, queues may build up over 20 iterations. Takes several times as long as predict(). kBadRequest: as predict(), and where
// workers are not in step.
Result<double> predict_settled(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster);

// Of a whole job of so many iterations of each worker (in the mean, where mini-batches are handed out): seconds from when all have
// the initial values until all have the last ones. Errors: as predict(), and fewer than one iteration.
Result<double> predict_job(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster,
                           Iteration iterations);

}  // namespace paceline::simulation
