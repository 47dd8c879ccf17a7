// One call of a collective operation: what the caller asks for, checked, and made into something that the engine can run. Pure; any
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "collectives/exec/moved_types.h"
#include "collectives/exec/program.h"
#include "collectives/plan/route.h"
#include "cost/link_cost.h"
#include "tensor/reduce.h"
#include "wire/collective.h"

namespace paceline::collectives {

using wire::CollectiveKind;

enum class ReductionKind : std::uint8_t { kSum, kMax, kMin, kMean };  // mean: the sum times 1 / ranks, rounded once more
const char* to_string(ReductionKind reduction);                       // "sum"
const char* to_string(CollectiveKind kind);                           // "allreduce"

// In which order values are added.
enum class SumOrder {
  kAny,   // whatever is fastest; the same bits for the same ranks, algorithm and count
  kRank,  // ((rank 0 + rank 1) + rank 2) + ...: bits do not depend on the algorithm. A reduce then needs the last rank as root.
};

// Ranks that work together, by their number in the job. Group 0 is all of them.
struct Group {
  std::uint32_t id = 0;     // the same on all its ranks
  std::vector<Rank> ranks;  // ascending
  std::int32_t self = 0;    // place of this process in `ranks`

  std::int32_t size() const { return static_cast<std::int32_t>(ranks.size()); }
  int place_of(Rank rank) const;  // in `ranks`; -1: it is not in the group
};

struct Call {
  CollectiveKind kind = CollectiveKind::kBarrier;
  // What `count` elements of the whole message are read from and written to; aligned to the element's size. They may be the same
  // ("in place"), but not overlap otherwise.
  //   broadcast        output: the message on the root, and where it arrives on the others. No input.
  //   reduce           input: each rank's contribution; output: the result, on the root. In place on another rank: the contents of
  //                    the buffer are undefined afterwards.
  //   allreduce        input and output: `count` elements
  //   reduce-scatter   input: `count` elements; output: this rank's part of the result (part_of), in place: its place in input
  //   allgather        input: this rank's part, in place: its place in output; output: `count` elements
  //   barrier          nothing
  //   all-to-all       input: `gives` elements for each rank, output: `takes` of each, both in the order of the ranks. Apart.
  //   gather           input: `count` elements; output: on the root those of all ranks, in their order. Apart.
  //   scatter          input: on the root `count` elements for each rank, in their order; output: `count`. Apart.
  const void* input = nullptr;
  void* output = nullptr;
  tensor::DType dtype = tensor::DType::kFloat32;
  std::int64_t count = 0;
  ReductionKind reduction = ReductionKind::kSum;
  int root = 0;                            // rank in the group
  Layer priority;                          // lower first, against everything that leaves this process
  std::optional<Algorithm> algorithm;      // absent: the one with the least predicted time
  std::optional<Bytes> block;              // of the linear pipeline; absent: the best. Larger than the message: all of it.
  std::vector<std::int64_t> gives, takes;  // all-to-all: elements, by rank
};

// What the times of operations are predicted with: CollectiveProblem describes both.
struct Expectation {
  cost::LinkCost link;
  double fill = 1;
};

// How calls are carried out; the same on all ranks.
struct Rules {
  cost::LinkCost link = kUnmeasuredLink;  // what the choice is made for
  double latency = 0, crowding = 0;       // likewise; see CollectiveProblem
  std::optional<Expectation> expected{};  // of what was chosen; absent: by link, and pipelines have to be filled
  SumOrder order = SumOrder::kAny;
  Agreement agreement = Agreement::kBeforeCompletion;
  Bytes segment{262'144};  // of ring and direct; at least 1
  // Between all ranks of the job, where links differ; null: they are alike. Of no effect on sums in rank order, whose chains follow
  // the ranks.
  std::shared_ptr<const LinkRates> links = nullptr;
};

// Into which the linear pipeline cuts a message.
inline constexpr std::int64_t kMostBlocks = 65'536;

// What was chosen for a call.
struct Choice {
  std::optional<Algorithm> algorithm;  // none: nothing has to be moved
  std::optional<Bytes> block;
  bool clipped = false;         // a larger block was asked for than the message has bytes
  bool raised = false;          // a block was asked for, or is the best, that makes more than kMostBlocks of the message
  double seconds = 0;           // predicted
  std::vector<int> order = {};  // of the linear pipeline's chain, where links differ so that the ranks' own is not the best
  std::string why = {};         // of that order: the rates of the links. Of none: what is done without an algorithm
  std::string text() const;
};

// The algorithms that may run the operation under the rules, in the order of Algorithm. Empty: none can.
std::vector<Algorithm> legal_algorithms(Operation operation, SumOrder order, std::int32_t ranks, int root, ReductionKind reduction);

// All-to-all, gather, scatter: parts go from who gives them to who takes them, without an algorithm (program.h).
bool is_exchange(CollectiveKind kind);
bool is_rooted(CollectiveKind kind);
bool reduces(CollectiveKind kind);
// A barrier is an allreduce of nothing that is done when all have begun it. Not of an exchange.
Operation operation_of(CollectiveKind kind);
// Whether input and output are the same memory, or one is its place in the other.
bool is_in_place(const Group& group, const Call& call);
// What the call reads and writes on this rank, in elements.
struct Extents {
  std::int64_t input = 0, output = 0;
};
Extents extents_of(const Group& group, const Call& call);

// Errors: kBadRequest naming what is wrong with the call. Whether buffers of several calls overlap is not looked at.
Status validate(const Group& group, const Call& call, const Rules& rules);
// Requires a valid call. `route`: what links that differ make of the operation; null: they are alike.
Choice choose(const Group& group, const Call& call, const Rules& rules, const Route* route = nullptr);
wire::CollectiveHead head_of(const Group& group, const Call& call, const Choice& choice, std::uint32_t number);

// "allreduce (sum) of 100 float32 by ring"
std::string describe(const wire::CollectiveHead& head);

// What the engine runs. `buffer` holds the whole message, in place; of an exchange, what it takes.
struct Job {
  wire::CollectiveHead head;
  std::shared_ptr<const Group> group;
  std::shared_ptr<const Program> program;
  Layer priority;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Reduction reduction = tensor::Reduction::kSum;
  std::byte* buffer = nullptr;
  const std::byte* input = nullptr;  // of an exchange
  double scale = 1;                  // of the result
  Range result;                      // what of the buffer is the result on this rank
  std::byte* copy_to = nullptr;      // where the result has to go from the buffer, if not null
  std::unique_ptr<std::byte[]> own;  // a buffer of the job's own
};

// Makes a group's calls ready: chooses their algorithms, and compiles what runs them, once for all that differ only in their
// buffers. One owner.
class CallPlanner {
 public:
  CallPlanner(std::shared_ptr<const Group> group, Rules rules) : group_(std::move(group)), rules_(std::move(rules)) {}

  // Both require a valid call.
  Choice choose(const Call& call) { return collectives::choose(*group_, call, rules_, route_of(call)); }
  // The group's call of that number. Copies the input to where the operation works, so that it is not read afterwards, but for an
  // exchange's.
  Job prepare(const Call& call, const Choice& choice, std::uint32_t number);
  std::shared_ptr<const Program> program_of(const Call& call, const Choice& choice);

  const Group& group() const { return *group_; }

 private:
  using Key = std::tuple<CollectiveKind, Algorithm, tensor::DType, std::int64_t, std::int64_t, int>;  // + count, block, root
  // What a training loop repeats is few; a script whose sizes are ever new must not fill the memory.
  static constexpr std::size_t kMostPrograms = 1024;

  const Route* route_of(const Call& call);

  std::shared_ptr<const Group> group_;
  Rules rules_;
  std::map<std::pair<Operation, int>, Route> routes_;  // by operation and root
  std::map<Key, std::shared_ptr<const Program>> programs_;
};

}  // namespace paceline::collectives
