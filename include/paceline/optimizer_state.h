/* The state that a job's optimizer has, where servers make the updates: given to them at the beginning, and asked of them, so
 * that a training program saves and restores it in its own way. Comes with paceline.h, which says what holds for all calls.
 *
 * Of each tensor that learns: how many updates it has had, and arrays of float32 as large as the tensor, by the job's optimizer:
 *   sgd, mean             none
 *   momentum, nesterov    1: the velocity
 *   adagrad               1: the sum of squared gradients
 *   adam, adamw           2: the first and the second moment */
#ifndef PACELINE_OPTIMIZER_STATE_H
#define PACELINE_OPTIMIZER_STATE_H

#include "paceline/error.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The job begins with this state of the tensor, copied from `arrays`: `count` of them, all that the optimizer has. `updates`: 0
 * and more. Only rank 0's counts; tensors without one begin with zeros. Not for jobs without servers, and a job that goes on
 * from a checkpoint has that one's. */
int32_t paceline_job_set_state(paceline_job* job, uint32_t tensor, const float* const* arrays, size_t count, int64_t updates,
                               paceline_error* error);

/* Worker, between paceline_backward_done and the next iteration's first gradient: returns when the servers have sent the state of
 * all tensors. In "bsp" with every update up to the last iteration, which is waited for; otherwise with those made so far, as
 * each server is asked. Any worker may call it, and the others need not: in "bsp" they wait for it at the end of their next
 * iteration. */
int32_t paceline_gather_state(paceline_node* node, double seconds, paceline_error* error);
/* As gathered last: one of the tensor's arrays, there until the next paceline_gather_state or until the node is closed. Refused
 * while a gather is not over. `array` may be NULL, as may `count` (elements) and `updates`. */
int32_t paceline_tensor_state(const paceline_node* node, uint32_t tensor, size_t number, const float** array, int64_t* count,
                              int64_t* updates, paceline_error* error);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
