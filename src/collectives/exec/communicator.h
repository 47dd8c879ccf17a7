// Collective operations for threads: begins them on the engine's loop and waits. One Communicator for each group.
//
//   Communicator all(engine, post, world_group(rank, ranks), options);
//   PACELINE_RETURN_IF_ERROR(all.run({.kind = CollectiveKind::kAllreduce, .input = v.data(), .output = v.data(), .count = n}));
//
// All ranks of a group call the same operations in the same order, with the same kind, type, count, reduction and root; several may
// be in flight. Ranks that disagree all fail with the same message (engine.h). After an error every operation fails with that
// error.
//
// Threads: any. Operations begin in the order of the calls, one at a time; where several threads call, it is theirs to do so in the
// same order on all ranks, or each has a group of its own. Engine and loop outlive it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/exec/engine.h"

namespace paceline::collectives {

Group world_group(Rank self, std::int32_t ranks);

// An operation in flight. Move only.
class Request {
 public:
  Request() = default;  // of nothing: done
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();  // waits: until then the buffers belong to the operation

  // Returns when the buffers are the caller's again: how the operation ended. Any number of times.
  Status wait() { return *wait(Duration::max()); }
  // The same, at most so long: nothing when it is not over. The stall deadline counts from the first of these calls.
  std::optional<Status> wait(Duration limit);
  bool done() const;
  const Choice& choice() const;

 private:
  friend class Communicator;
  struct State;
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// Lets a thread that waits serve the engine's loop itself, so that nobody has to be woken for it.
class Driver {
 public:
  virtual ~Driver() = default;
  // Runs `work` on the loop, on this thread, and sends what it has to send. False: not possible now; post it.
  virtual bool try_run(std::function<void()> work) = 0;
  // Serves the loop on this thread until `over`, which is set on the loop before on_over(), or until `limit` has passed. False:
  // another thread does, which sets `over` too.
  virtual bool drive(const std::atomic<bool>& over, Duration limit) = 0;
  // On the loop: an operation is over.
  virtual void on_over() = 0;
};

struct CommunicatorOptions {
  Rules rules;
  Duration stall_deadline = std::chrono::minutes(10);  // the longest that an operation may take once waited for; above 0
  Duration spin{0};  // how long wait() looks without sleeping: saves the time to wake up, costs a processor; not with a driver,
                     // whose matter that is
  Driver* driver = nullptr;  // outlives communicator and requests; null: the loop has a thread of its own
};

class Communicator {
 public:
  using Post = std::function<void(std::function<void()>)>;  // runs something on the engine's loop, in order

  Communicator(Engine& engine, Post post, Group group, CommunicatorOptions options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  // Begins an operation. Errors: kBadRequest naming what is wrong with the call, and nothing has begun; the reason of the first
  // failure. Throws std::bad_alloc when there is no memory for a copy of the input: nothing has begun either.
  Result<Request> start(const Call& call);
  // The same, and waits.
  Status run(const Call& call);

  // Some of the ranks, by their number in this group, ascending and with this process among them. `name`: above 0, the same on all
  // of them, used once in a job by each rank. Destroying it tells the others that this rank calls nothing more there.
  Result<std::unique_ptr<Communicator>> subgroup(std::uint64_t name, const std::vector<int>& ranks);

  // Ranks of this group, by their number in it, that have left or are lost.
  std::vector<int> gone();
  // Whether another rank has begun the operation that comes next here, as far as this one has heard.
  bool is_awaited();

  int rank() const { return group_->self; }
  int size() const { return group_->size(); }

 private:
  struct InFlight {
    std::weak_ptr<Request::State> state;
    const std::byte* begin;
    const std::byte* end;
    bool written;
  };

  // On the loop, in the order of these calls.
  void run_on_loop(std::function<void()> work);
  Status check_in_flight(const Call& call);
  std::vector<InFlight> areas_of(const Call& call) const;

  Engine& engine_;
  Post post_;
  std::shared_ptr<const Group> group_;
  CommunicatorOptions options_;
  bool made_ = false;  // by subgroup()

  std::mutex starting_;  // what follows
  CallPlanner planner_;
  std::uint32_t number_ = 0;
  bool said_clipped_ = false;
  std::vector<InFlight> in_flight_;
};

}  // namespace paceline::collectives
