// A collective as a value: what each rank sends, receives, reduces and copies, round by round. Pure; the executor runs it over
// sessions, the simulator in virtual time, a test by hand. Linear Pipeline, sections 3.1-3.3.
//
// How a plan is run. Each rank works in its own buffer, in place, and in scratch memory of `scratch` elements. It takes its steps
// round by round: within a round the sends and receives run at the same time, then the reduces and copies in the order listed. A
// round is over when its sends have left the buffer and its receives have arrived; no rank waits for the others' rounds. Messages
// between two ranks arrive in the order sent, and the n-th received is the n-th sent. Within a round nothing that is being sent is
// written, and a rank sends at most one message and receives at most one: a full-duplex port is never shared.
//
// The order of additions depends on the plan only, never on arrival. Linear pipeline reduce and allreduce and the direct allreduce
// add in rank order (the reduce only with the last rank as root, both pipelines only with an empty PlanRequest::order); the others
// in an order fixed by ranks, elements, algorithm and chain.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "collectives/plan/cost.h"

namespace paceline::collectives {

struct PlanRequest {
  Operation operation = Operation::kAllreduce;
  Algorithm algorithm = Algorithm::kRing;
  int ranks = 1;              // >= 1
  std::int64_t elements = 0;  // of the whole message, >= 0; may be fewer than ranks
  std::int64_t block = 1;     // elements of a block of the linear pipeline, >= 1; others ignore it
  int root = 0;               // has the message (broadcast) or gets the sum (reduce); 0 for the others
  // Of the linear pipeline: the rank at each position of the chain, where a broadcast begins and a reduce ends with the root.
  // Empty: the ranks' own order, for a broadcast from the root on, for a reduce up to it, and around after the last rank.
  std::vector<int> order = {};
};

// kInput: what an exchange (exec/program.h) gives, apart from what it takes; only read.
enum class Memory { kBuffer, kScratch, kInput };

// Elements `first .. first + count - 1` of a memory.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Range&) const = default;
};

// The message cut into one part for each rank; the first ones are one element longer where they cannot be equal.
Range part_of(std::int64_t elements, int ranks, int rank);

// Where a message lies: one range, or two that follow each other in the message (`wrapped` starts at the buffer's front). Never
// empty.
struct Place {
  Memory memory = Memory::kBuffer;
  Range range;
  Range wrapped;
  std::int64_t count() const { return range.count + wrapped.count; }
  bool operator==(const Place&) const = default;
};

// Whether two ranges or places have an element in common.
bool overlap(const Range& a, const Range& b);
bool overlap(const Place& a, const Place& b);

enum class StepKind { kSend, kReceive, kReduce, kCopy };

struct Step {
  StepKind kind = StepKind::kSend;
  std::int64_t round = 0;  // from 0, not descending within a rank's steps
  int peer = 0;            // of kSend and kReceive
  Place from;              // all but kReceive; as many elements as `to`
  Place to;                // all but kSend. kReduce: to = to + from, elementwise
};

struct RankPlan {
  std::vector<Step> steps;   // sends and receives of a round stand before its reduces and copies
  std::int64_t scratch = 0;  // elements of scratch memory that the steps use
};

struct CollectivePlan {
  PlanRequest request;
  std::int64_t rounds = 0;  // equals CollectiveCost::steps
  std::vector<RankPlan> ranks;
};

// kBadRequest: an algorithm that cannot do the operation, no ranks, a negative number of elements, a block below 1, a root that is
// no rank, an order that is no order of all ranks, does not stand where the root is, or is of an algorithm that has no chain.
Status validate(const PlanRequest& request);

// The number of rounds of a valid request. An empty message or one rank: 0.
std::int64_t rounds_of(const PlanRequest& request);

// Whether no rank's steps can be over before every rank has begun its own, because something of each reaches all. True for a
// message of which each rank has a part, unless it goes from or to a root alone. False says nothing. A valid request.
bool waits_for_all(const PlanRequest& request);

// The steps of one rank of a valid request: what a process needs. O(steps).
RankPlan plan_of_rank(const PlanRequest& request, int rank);

// All ranks: what a simulator or a check needs.
Result<CollectivePlan> make_plan(const PlanRequest& request);

}  // namespace paceline::collectives
