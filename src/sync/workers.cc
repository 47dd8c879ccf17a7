#include "sync/workers.h"

#include <algorithm>
#include <utility>

namespace paceline::sync {

Status Workers::join(Rank worker, Iteration first, Iteration earliest) {
  if (worker.value < 0) return error(ErrorKind::kBadRequest, "worker {} cannot join: ranks start at 0", worker.value);
  if (workers_.contains(worker)) return error(ErrorKind::kBadRequest, "worker {} joined but takes part already", worker.value);
  if (first < earliest) {
    return error(ErrorKind::kBadRequest, "worker {} wants to join at iteration {}; the earliest is {}", worker.value, first,
                 earliest);
  }
  workers_[worker] = {first - 1, first - 1, {}};
  find_slowest();
  return {};
}

Status Workers::ask(Rank worker, Iteration iteration) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) {
    return error(ErrorKind::kBadRequest, "worker {} asked to start iteration {} but does not take part", worker.value, iteration);
  }
  WorkerProgress& progress = found->second;
  if (progress.wanted) {
    return error(ErrorKind::kBadRequest, "worker {} asked to start iteration {} while it waits for iteration {}", worker.value,
                 iteration, *progress.wanted);
  }
  if (iteration != progress.started + 1) {
    return error(ErrorKind::kBadRequest, "worker {} asked to start iteration {}; its next is {}", worker.value, iteration,
                 progress.started + 1);
  }
  progress.wanted = iteration;
  const Iteration before = std::exchange(progress.ended, iteration - 1);
  if (before == slowest_ && before != progress.ended && --at_slowest_ == 0) find_slowest();
  return {};
}

Status Workers::leave(Rank worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return error(ErrorKind::kBadRequest, "worker {} left but does not take part", worker.value);
  farthest_left_ = std::max(farthest_left_, found->second.ended);
  workers_.erase(found);
  find_slowest();
  return {};
}

const WorkerProgress* Workers::find(Rank worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

void Workers::find_slowest() {
  slowest_ = farthest_left_;
  at_slowest_ = 0;
  for (const auto& [worker, progress] : workers_) {
    if (at_slowest_ > 0 && progress.ended > slowest_) continue;
    if (at_slowest_ == 0 || progress.ended < slowest_) at_slowest_ = 0;
    slowest_ = progress.ended;
    ++at_slowest_;
  }
}

}  // namespace paceline::sync
