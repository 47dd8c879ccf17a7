/* Where workers have optimizers of their own ("optimizer" "mean"), each must make the same steps from the same state: calls by
 * which they tell, so that no job in which ranks have parted ends well. Comes with paceline.h, which says what holds for all calls.
 *
 * Nothing is waited for. A difference ends the job for everybody, with PACELINE_BAD_REQUEST ("parted") and a sentence that names
 * two ranks, the iteration and what differs: a tenth of a second or an iteration later, and at the latest from paceline_finish. */
#ifndef PACELINE_ALIKE_H
#define PACELINE_ALIKE_H

#include "paceline/error.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* This worker goes on from `iteration`, the last one, without its step: all workers leave it out, or none does. Told after
 * paceline_step_done, before anything of a later iteration; nothing is told of a step that is made. */
int32_t paceline_tell_left_out(paceline_node* node, int64_t iteration, paceline_error* error);
/* What all workers have alike after `iteration`, the last one: `count` names (at most a million), each with how it is here, such as
 * "lr" with "0.1", or a parameter with its checksum. Copied. Compared with what others tell of the same iteration, of which each
 * tells at most once; "" is compared with nothing. */
int32_t paceline_tell_alike(paceline_node* node, int64_t iteration, const char* const* names, const char* const* values,
                            size_t count, paceline_error* error);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
