// Which mini-batches a worker takes, and when it has taken its last one. In BSP every worker does the same number of iterations, in
// each of which it has a place of its own. Otherwise the mini-batches of all these places are handed out one by one, so that a
// worker that is twice as fast does twice as many (job::Plan::uneven). Training thread only.
#pragma once

#include "runtime/worker_process.h"
#include "training/phase_timer.h"

namespace paceline::training {

// Where a mini-batch stands in the order of BSP.
struct MiniBatchPlace {
  Iteration iteration = 1;
  Rank rank;
};
// `number`: from 1.
constexpr MiniBatchPlace place_of(std::int64_t number, std::int32_t workers) {
  return {(number - 1) / workers + 1, Rank{static_cast<std::int32_t>((number - 1) % workers)}};
}

class MiniBatches {
 public:
  // `iterations` of each worker, in the mean. The others outlive it.
  MiniBatches(runtime::WorkerProcess& process, PhaseTimer& timer, Iteration iterations)
      : process_(process), timer_(timer), iterations_(iterations) {}

  // Before the first iteration: waits for its mini-batch.
  Status begin() { return uneven() ? next() : Status(); }
  // After the backward pass of `iteration`: whether there is none for another one, or somebody asked to stop.
  Result<bool> was_last(Iteration iteration) {
    if (!uneven() && iteration >= iterations_) return true;
    PACELINE_ASSIGN_OR_RETURN(const bool asked, process_.end_iteration(iteration));
    if (asked || !uneven()) return asked;
    PACELINE_RETURN_IF_ERROR(next());
    return place_of(number_, process_.workers()).iteration > iterations_;
  }
  // How far the job is, of `iterations`, with the mini-batch that the worker has taken for `iteration`.
  Iteration done(Iteration iteration) const { return uneven() ? place_of(number_, process_.workers()).iteration : iteration; }

 private:
  bool uneven() const { return process_.exchange().plan().uneven(); }
  Status next() {
    PACELINE_ASSIGN_OR_RETURN(number_, timer_.next_mini_batch());
    return {};
  }

  runtime::WorkerProcess& process_;
  PhaseTimer& timer_;
  const Iteration iterations_;
  std::int64_t number_ = 1;  // of the mini-batch that was handed out last
};

}  // namespace paceline::training
