#include "sync/workers.h"

#include <algorithm>

namespace paceline::sync {

Status Workers::join(Rank worker, Iteration first, Iteration earliest) {
  if (worker.value < 0) return error(ErrorKind::kBadRequest, "worker {} cannot join: ranks start at 0", worker.value);
  if (workers_.contains(worker)) return error(ErrorKind::kBadRequest, "worker {} joined but takes part already", worker.value);
  if (first < earliest) {
    return error(ErrorKind::kBadRequest, "worker {} wants to join at iteration {}; the earliest is {}", worker.value, first,
                 earliest);
  }
  workers_[worker] = {first - 1, first - 1, {}};
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
  progress.ended = iteration - 1;
  progress.wanted = iteration;
  return {};
}

Status Workers::leave(Rank worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return error(ErrorKind::kBadRequest, "worker {} left but does not take part", worker.value);
  farthest_left_ = std::max(farthest_left_, found->second.ended);
  workers_.erase(found);
  return {};
}

const WorkerProgress* Workers::find(Rank worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

Iteration Workers::ended_by_all() const {
  if (workers_.empty()) return farthest_left_;
  const auto slowest = std::min_element(workers_.begin(), workers_.end(),
                                        [](const auto& a, const auto& b) { return a.second.ended < b.second.ended; });
  return slowest->second.ended;
}

}  // namespace paceline::sync
