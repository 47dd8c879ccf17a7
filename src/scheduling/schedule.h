// A communication schedule as a value: what is synchronised as one message, in which order messages leave, when gradients leave and
// how new values come back. The named schedules are values of one struct, not classes. Plain data, any thread.
//
//   name         cut                 order     push       back              a layer's forward awaits
//   default      tensors, balanced   FIFO      at end     pull at once      everything
//   layer-wise   tensors, balanced   by layer  as ready   pull by layer     its own values
//   ibatch       tensors, balanced   by layer  as ready   pull in batches   its own batch
//   kvstore      1e6 elements split  FIFO      as ready   notify and pull   its own values
//   slicing      50 000 elements     FIFO      as ready   broadcast         its own values
//   tuned        chosen for the job  by layer  as ready   broadcast         its own values
//   p3           50 000 elements     by layer  as ready   broadcast         its own values
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduling/window.h"

namespace paceline::scheduling {

// Into which units the model is cut.
struct Cut {
  enum class Kind {
    kTensors,   // never: one unit per tensor
    kBalanced,  // tensors stay whole, except that the largest are split evenly over all servers, one by one, until the servers'
                // shares differ by at most 1 % of a fair share
    kLarge,     // tensors of `elements` or more are split evenly over all servers (KVStore: 1 000 000)
    kSlices,    // even slices of at most `elements` each (P3: 50 000)
  };
  Kind kind = Kind::kBalanced;
  std::int64_t elements = 0;  // kLarge and kSlices: at least 1; otherwise 0
  std::int64_t merge = 0;     // tensors that together have no more elements than this join the unit before them; 0: none does

  bool operator==(const Cut&) const = default;
};
inline constexpr Cut whole_tensors() { return {Cut::Kind::kTensors, 0, 0}; }
inline constexpr Cut balanced_tensors() { return {Cut::Kind::kBalanced, 0, 0}; }
inline constexpr Cut split_large_tensors(std::int64_t elements) { return {Cut::Kind::kLarge, elements, 0}; }
inline constexpr Cut slices_of(std::int64_t elements) { return {Cut::Kind::kSlices, elements, 0}; }

// Which of the messages that are ready leaves first.
enum class Order {
  kByLayer,  // of the lowest layer; within a layer first come, first served
  kFirstInFirstOut,
};

// The places on a value's way that urgency depends on (P3; docs/algorithms.md, section 1). All of them, unless a comparison wants
// to know what one is worth.
struct OrderedPlaces {
  bool worker_egress = true;   // gradients leave by Order
  bool server_ingress = true;  // gradients that have arrived are worked off by Order
  bool server_egress = true;   // values leave by Order
  bool window = true;          // few bytes are on their way; otherwise everything is handed to the network as soon as it is ready

  bool operator==(const OrderedPlaces&) const = default;
};
// "all", "none", or names in any order with commas between: worker-egress, server-ingress, server-egress, window. kBadRequest with
// the legal names.
Result<OrderedPlaces> parse_places(std::string_view text);
std::string to_text(const OrderedPlaces& places);  // as parse_places reads it

enum class PushWhen {
  kAtEnd,      // all gradients when backward is over; layers and batches are asked for when the servers have all of them, so that
               // only pulls and computing overlap, as in iBatch's experiment
  kReady,      // each unit as soon as its gradient exists
  kInBatches,  // a batch of layers as soon as all its gradients exist, one message to each server (iBatch with time reversed); only
               // with Return::kPullInBatches, whose pulls say what the link is like
};
const char* to_string(PushWhen push);  // "at-end", "as-ready", "in-batches"

enum class Return {
  kBroadcast,  // a server sends a new value to whom it is due as soon as it exists; nobody asks (P3's immediate broadcast)
  // The three that pull ask when the last gradient of what they ask for is pushed, layers and batches with kAtEnd when the servers
  // have all gradients: one request to each server, which answers with one message when all of it is updated.
  kPullAtOnce,     // a worker asks for everything together, and starts its forward when all has come
  kPullByLayer,    // a worker asks for each layer by itself; only that layer's forward waits for it
  kPullInBatches,  // a worker asks for batches of layers, which it plans while the job runs (iBatch)
  kNotifyAndPull,  // a server tells that a unit is updated; a worker asks for a layer's units when all of them are (KVStore)
};
const char* to_string(Return back);  // "broadcast", "pull-at-once", "pull-by-layer", "pull-in-batches", "notify-and-pull"

// How batches of layers are planned, with Return::kPullInBatches and PushWhen::kInBatches (scheduling/batching.h).
enum class BatchingAlgorithm { kExact, kForwardGreedy, kBackwardGreedy, kIbatch };
const char* to_string(BatchingAlgorithm algorithm);  // as in `plan batches`: "exact", "forward-greedy", ...
// kBadRequest with the legal names and the nearest one.
Result<BatchingAlgorithm> parse_batching_algorithm(std::string_view text);

struct ScheduleOptions {
  Cut cut = balanced_tensors();
  Order order = Order::kByLayer;
  PushWhen push = PushWhen::kReady;
  Return back = Return::kPullByLayer;
  BatchingAlgorithm batching = BatchingAlgorithm::kExact;
  WindowRule window{};
  OrderedPlaces places{};

  bool operator==(const ScheduleOptions&) const = default;
};

// What leaves a node on the way of a value: gradients (and requests) to servers, values (and notices) to workers. On a link that
// both use, those of equal priority take turns, or workers drift into a stable anti-phase.
enum class Flow : std::uint8_t { kPush, kReply };
inline constexpr std::size_t kFlows = 2;
inline constexpr Flow other(Flow flow) { return flow == Flow::kPush ? Flow::kReply : Flow::kPush; }

// What the endpoint of a process needs of a schedule.
struct EgressRules {
  Order pushes = Order::kByLayer, replies = Order::kByLayer;
  WindowRule window{};
  bool pushes_first = false;  // of one iteration all pushes before any reply
};
EgressRules egress_rules(const ScheduleOptions& options);
Order ingress_order(const ScheduleOptions& options);

ScheduleOptions default_schedule();
ScheduleOptions layer_wise();
ScheduleOptions
ibatch_schedule();          // iBatch, "Algorithm Design"; its batches are planned while the job runs (scheduling/live_profile.h)
ScheduleOptions kvstore();  // MXNet's parameter server, the baseline of P3
ScheduleOptions slicing();
ScheduleOptions tuned();  // before anything is chosen: p3's (tuning/tune.h chooses)
ScheduleOptions p3();     // Priority-based Parameter Propagation, section 4

// The cut of a model that is `scale` >= 1 times smaller than the one it is made for: sizes divided by it, rounded, at least 1.
Cut scaled(Cut cut, double scale);

// The options, or kBadRequest that names the part and what is legal.
Result<ScheduleOptions> validated(ScheduleOptions options);

// The schedule of that name; kBadRequest with the legal names and the nearest one.
Result<ScheduleOptions> parse_schedule_name(std::string_view text);
// All names that parse_schedule_name knows, in the order of the table above.
const std::vector<std::string>& schedule_names();

}  // namespace paceline::scheduling
