// The functions of the C interface about the optimizer's state (optimizer_state.h), and what a job and a worker do for them.
#include <limits>

#include <fmt/ranges.h>

#include "library/structs.h"
#include "library/worker_node.h"

namespace paceline::library {

Status Job::set_state(std::uint32_t tensor, std::span<const float* const> arrays, std::int64_t updates) {
  const std::lock_guard lock(mutex_);
  if (tensor >= added_.tensors.size())
    return refusal("illegal", "tensor", "tensor {} does not exist; the job has {}", tensor, added_.tensors.size());
  const wire::TensorInfo& info = added_.tensors[tensor];
  if (arrays.size() > kMostStateArrays)
    return refusal("illegal", "count", "{} arrays of optimizer state; legal: 0 to {}", arrays.size(), kMostStateArrays);
  if (updates < 0) return refusal("illegal", "updates", "\"{}\" has had {} updates; legal: 0 and more", info.name, updates);
  constexpr std::int64_t kMostElements = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float);
  std::int64_t elements = 1;  // joining refuses such a shape, but that comes later
  for (const std::int64_t length : info.shape) {
    if (length < 0 || __builtin_mul_overflow(elements, length, &elements) || elements > kMostElements)
      return refusal("illegal", "tensor", "tensor \"{}\" has the illegal shape [{}]", info.name, fmt::join(info.shape, ", "));
  }
  exchange::OptimizerState::Known known{.steps = updates, .planes = {}};
  for (const float* array : arrays) {
    if (elements > 0) PACELINE_RETURN_IF_ERROR(check_given(array, "arrays"));
    known.planes.emplace_back(array, array + elements);
  }
  state_.resize(added_.tensors.size());
  state_[tensor] = std::move(known);
  return {};
}

Result<bool> WorkerNode::gather_state(Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_gather_state"));
  if (exchange().in_backward()) {
    return refusal(kOrder, "node",
                   "gradients of iteration {} are on the way; gather the optimizer's state before the first of them",
                   exchange().current());
  }
  const TimePoint began = std::chrono::steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const bool values, settled(exchange().wait_all(exchange().current() - 1, limit)));
  if (!values) return false;
  if (limit != Duration::max()) limit -= std::min<Duration>(limit, std::chrono::steady_clock::now() - began);
  gathered_ = false;  // what was gathered before is overwritten from here on
  PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().carrier().gather_state(limit)));
  if (over) gathered_ = true;
  return over;
}

Result<const exchange::OptimizerState::Known*> WorkerNode::state(std::uint32_t tensor) const {
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  if (!gathered_) return refusal(kOrder, "node", "paceline_tensor_state comes before paceline_gather_state has returned 0");
  return &state_.of(job_.numbers.place(tensor));
}

}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_job_set_state(paceline_job* job, uint32_t tensor, const float* const* arrays, size_t count, int64_t updates,
                               paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
    if (count > 0) PACELINE_RETURN_IF_ERROR(check_given(arrays, "arrays"));
    return used->set_state(tensor, {arrays, count}, updates);
  });
}

int32_t paceline_gather_state(paceline_node* node, double seconds, paceline_error* error) {
  return guarded(error, [&]() -> Result<bool> {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_ASSIGN_OR_RETURN(const Duration limit, limit_of(seconds));
    return used->gather_state(limit);
  });
}

int32_t paceline_tensor_state(const paceline_node* node, uint32_t tensor, size_t number, const float** array, int64_t* count,
                              int64_t* updates, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_ASSIGN_OR_RETURN(const auto* known, used->state(tensor));
    if (array != nullptr || count != nullptr) {
      if (number >= known->planes.size())
        return refusal("illegal", "number", "array {} of the state of tensor {}; it has {}", number, tensor, known->planes.size());
      if (array != nullptr) *array = known->planes[number].data();
      if (count != nullptr) *count = static_cast<std::int64_t>(known->planes[number].size());
    }
    if (updates != nullptr) *updates = known->steps;
    return {};
  });
}
