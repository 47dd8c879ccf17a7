// The functions of the C interface that a worker's training loop calls.
#include <cmath>

#include "library/structs.h"
#include "library/worker_node.h"

namespace paceline::library {
namespace {

Status check_step(const paceline_step& step) {
  if (step.samples < 0) return refusal("illegal", "step.samples", "{} samples; legal: 0 and more", step.samples);
  if (step.phases != 0 && step.phases != PACELINE_PHASES)
    return refusal("illegal", "step.phases", "{} phases; legal: 0 or {}", step.phases, static_cast<int>(PACELINE_PHASES));
  if (step.phases != 0) PACELINE_RETURN_IF_ERROR(check_given(step.phase_seconds, "step.phase_seconds"));
  for (std::size_t phase = 0; phase < step.phases; ++phase) {
    const double seconds = step.phase_seconds[phase];
    if (!(seconds >= 0) || !std::isfinite(seconds))
      return refusal("illegal", "step.phase_seconds", "phase {} took {} seconds; legal: 0 and more", phase, seconds);
  }
  return {};
}

// Where a tensor stands in one of the two arrays.
template <typename Find>
Status give_place(paceline_node* node, float** first, const char* name, int64_t* count, Find find) {
  PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
  PACELINE_RETURN_IF_ERROR(check_given(first, name));
  PACELINE_ASSIGN_OR_RETURN(const WorkerNode::Span place, find(*used));
  *first = place.first;
  if (count != nullptr) *count = place.count;
  return {};
}

// A call of a worker that waits.
template <typename Wait>
int32_t wait_in(paceline_node* node, double seconds, paceline_error* error, Wait wait) {
  return guarded(error, [&]() -> Result<bool> {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_ASSIGN_OR_RETURN(const Duration limit, limit_of(seconds));
    return wait(*used, limit);
  });
}

}  // namespace
}  // namespace paceline::library

using namespace paceline;
using namespace paceline::library;

int32_t paceline_join(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<Job>(job));
    PACELINE_RETURN_IF_ERROR(check_given(node, "node"));
    PACELINE_ASSIGN_OR_RETURN(const paceline_place known, read_place(place));
    if (known.role != 0 && known.role != PACELINE_WORKER && known.role != PACELINE_BOTH)
      return refusal("illegal", "place.role", "role {}; legal: 3 (PACELINE_WORKER) and 4 (PACELINE_BOTH)", known.role);
    PACELINE_ASSIGN_OR_RETURN(Job::Description description, used->described());
    PACELINE_ASSIGN_OR_RETURN(runtime::MemberOptions member, member_options(known, description.spec));
    if (known.role == PACELINE_BOTH) member.roles = member.roles | wire::Role::kServer;
    PACELINE_ASSIGN_OR_RETURN(const auto key, member_key(known, member));
    PACELINE_ASSIGN_OR_RETURN(auto worker, WorkerNode::begin(std::move(description), std::move(member), key));
    give_handle(std::move(worker), node);
    return {};
  });
}

int32_t paceline_wait_joined(paceline_node* node, double seconds, paceline_error* error) {
  return wait_in(node, seconds, error, [](WorkerNode& worker, Duration limit) { return worker.joined(limit); });
}

int32_t paceline_tensor_value(paceline_node* node, uint32_t tensor, float** value, int64_t* count, paceline_error* error) {
  return guarded(error, [&] {
    return give_place(node, value, "value", count, [tensor](WorkerNode& worker) { return worker.value(tensor); });
  });
}

int32_t paceline_tensor_gradient(paceline_node* node, uint32_t tensor, float** gradient, int64_t* count, paceline_error* error) {
  return guarded(error, [&] {
    return give_place(node, gradient, "gradient", count, [tensor](WorkerNode& worker) { return worker.gradient(tensor); });
  });
}

int32_t paceline_wait_layer(paceline_node* node, int32_t layer, int64_t iteration, double seconds, paceline_error* error) {
  return wait_in(node, seconds, error,
                 [&](WorkerNode& worker, Duration limit) { return worker.wait_layer(layer, iteration, limit); });
}

int32_t paceline_wait_all(paceline_node* node, int64_t iteration, double seconds, paceline_error* error) {
  return wait_in(node, seconds, error, [&](WorkerNode& worker, Duration limit) { return worker.wait_all(iteration, limit); });
}

int32_t paceline_wait_free(paceline_node* node, int32_t layer, double seconds, paceline_error* error) {
  return wait_in(node, seconds, error, [&](WorkerNode& worker, Duration limit) { return worker.wait_free(layer, limit); });
}

int32_t paceline_set_order(paceline_node* node, const int32_t* layers, size_t count, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_RETURN_IF_ERROR(check_given(layers, "layers"));
    return used->set_order({layers, count});
  });
}

int32_t paceline_tell_rates(paceline_node* node, int64_t iteration, const double* learning_rates, const double* weight_decays,
                            size_t groups, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_RETURN_IF_ERROR(check_given(learning_rates, "learning_rates"));
    PACELINE_RETURN_IF_ERROR(check_given(weight_decays, "weight_decays"));
    return used->tell_rates(iteration, {learning_rates, groups}, {weight_decays, groups});
  });
}

int32_t paceline_gradient_ready(paceline_node* node, uint32_t tensor, const void* data, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    return used->gradient_ready(tensor, data);
  });
}

int32_t paceline_backward_done(paceline_node* node, int64_t iteration, const uint32_t* unused, size_t count,
                               paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    if (count > 0) PACELINE_RETURN_IF_ERROR(check_given(unused, "unused"));
    return used->backward_done(iteration, {unused, count});
  });
}

int32_t paceline_wait_verdict(paceline_node* node, int64_t iteration, double seconds, paceline_verdict* verdict,
                              paceline_error* error) {
  return wait_in(node, seconds, error, [&](WorkerNode& worker, Duration limit) -> Result<bool> {
    PACELINE_ASSIGN_OR_RETURN(paceline_verdict known, read_struct(verdict, "verdict"));
    if (known.unused != nullptr && known.tensors != worker.tensors())
      return refusal("illegal", "verdict.tensors", "room for {} tensors; the job has {}", known.tensors, worker.tensors());
    PACELINE_ASSIGN_OR_RETURN(const bool over, worker.wait_verdict(iteration, limit, known));
    if (over) write_struct(known, verdict);
    return over;
  });
}

int32_t paceline_step_done(paceline_node* node, const paceline_step* step, int32_t* stopping, paceline_error* error) {
  return guarded(error, [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto used, use<WorkerNode>(node));
    PACELINE_RETURN_IF_ERROR(check_given(stopping, "stopping"));
    PACELINE_ASSIGN_OR_RETURN(const paceline_step known, read_struct(step, "step"));
    PACELINE_RETURN_IF_ERROR(check_step(known));
    PACELINE_ASSIGN_OR_RETURN(const bool last, used->step_done(known));
    *stopping = last ? 1 : 0;
    return {};
  });
}
