/* Paceline in C11: describe a job, start its coordinator and servers, join it as a worker, train, and reduce between
 * processes. For programs in C and for bindings of other languages, which need nothing else. Link libpaceline (CMake:
 * paceline::paceline).
 *
 * One worker, whose process is a server too and runs the coordinator:
 *
 *   paceline_error error = {sizeof error};
 *   paceline_job* job;
 *   paceline_node *coordinator, *worker;
 *   paceline_job_new(&job, &error);
 *   paceline_job_set(job, "learning-rate", "0.1", &error);
 *   int64_t shape[1] = {1000};
 *   paceline_tensor weights = {sizeof weights, .name = "fc.weight", .shape = shape, .dimensions = 1, .value = initial};
 *   paceline_job_add_tensor(job, &weights, NULL, &error);
 *   paceline_place place = {sizeof place, .role = PACELINE_BOTH, .rank = -1, .workers = 1, .servers = 1};
 *   paceline_coordinate(job, &place, &coordinator, &error);
 *   paceline_node_address(coordinator, &address, &error);    a text: place.coordinator of everybody else
 *   paceline_join(job, &place, &worker, &error);
 *   paceline_wait_joined(worker, INFINITY, &error);
 *   for (int64_t i = 1; i <= iterations; ++i) {
 *     paceline_wait_layer(worker, 0, i, INFINITY, &error);   the layer's values are those that iteration i is computed with
 *     ... forward and backward ...
 *     paceline_gradient_ready(worker, 0, gradient, &error);  each tensor's as soon as it is computed
 *     paceline_backward_done(worker, i, NULL, 0, &error);
 *     paceline_step_done(worker, &step, &stopping, &error);
 *   }
 *   paceline_finish(worker, INFINITY, &error);  paceline_finish(coordinator, INFINITY, &error);
 *   paceline_close(worker, 1, &error);          paceline_close(coordinator, 1, &error);      paceline_close(job, 0, &error);
 *
 * Results. A function that returns int32_t returns a kind: 0 (PACELINE_DONE), or why not, and then fills `error`, which may
 * be NULL. What it gives back through pointers is given only with 0. A call that is refused (PACELINE_BAD_REQUEST) has done
 * nothing: a NULL, a handle that is closed, of another type or of the parent process, a call that is not the handle's turn,
 * an unknown option. Nothing is thrown, and no signal handler, signal mask or environment variable of the process is touched.
 *
 * Structs begin with their size, which the caller sets to sizeof; the rest may be 0 for the default. A library knows the
 * structs of earlier releases; one that is smaller than the first release's or larger than its own is refused, but `error`.
 *
 * Handles are opaque, never NULL, and used until paceline_close. Each object has threads of the library's own, which block
 * all signals. Threads: any handle may be used by any thread, several at a time. A call of another thread that waits while
 * the handle is closed ends with PACELINE_CANCELLED; closing a request waits for its end (error.h). fork(): in the child
 * every handle of the parent is refused and nothing of it is touched; the child may make others.
 *
 * Times are seconds. A `seconds` argument limits one call: 0 looks only, INFINITY leaves it to the job's own limits (options
 * `deadline` and `stall-deadline`). When it has passed and nothing else has happened the kind is PACELINE_AGAIN: call again
 * with the same arguments. So a caller that has to look after something else meanwhile, such as an interpreter, waits in
 * slices. Texts are UTF-8 and end with a 0 byte. */
#ifndef PACELINE_PACELINE_H
#define PACELINE_PACELINE_H

#include "paceline/error.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- Jobs */

/* Element types. */
enum { PACELINE_FLOAT32 = 0, PACELINE_FLOAT64 = 1, PACELINE_INT32 = 2, PACELINE_FLOAT16 = 3, PACELINE_BFLOAT16 = 4 };

/* A parameter array. */
typedef struct paceline_tensor {
  size_t size;
  const char* name;     /* "conv1.weight"; no two alike, and not empty */
  const int64_t* shape; /* `dimensions` lengths of 0 or more; no dimension: one element */
  size_t dimensions;    /* at most 64 */
  int32_t type;         /* of `value` and gradients as they are given: float32, float16 or bfloat16. Inside all is float32 */
  int32_t layer;        /* whose gate it passes, 0: needed first. Ascends by at most 1 from one tensor to the next */
  const void* value;    /* its initial values, dense, read by paceline_join; NULL: zeros. Only rank 0's count */
  int32_t frozen;       /* 1: never has a gradient, and keeps rank 0's initial value; costs nothing after joining */
  int32_t group;        /* with the option "told-rates": whose rates it is updated with, from 0. Else 0 */
} paceline_tensor;

/* A job with the defaults of `paceline train`, without tensors. */
int32_t paceline_job_new(paceline_job** job, paceline_error* error);
/* An option as on the command line, without dashes: "momentum", "0.9"; a time with its unit: "deadline", "5s"; a flag "1" or "0".
 * paceline_ask("options") lists them. What options mean together is checked when the job is joined. */
int32_t paceline_job_set(paceline_job* job, const char* option, const char* value, paceline_error* error);
/* As it would be given; "" when it is not set and need not be. */
int32_t paceline_job_get(const paceline_job* job, const char* option, paceline_text** value, paceline_error* error);
/* Tensors are numbered in the order in which they are added, from 0. `number` may be NULL. */
int32_t paceline_job_add_tensor(paceline_job* job, const paceline_tensor* tensor, uint32_t* number, paceline_error* error);

/* ---- Nodes: the processes of a job, or parts of one process */

enum { PACELINE_COORDINATOR = 1, PACELINE_SERVER = 2, PACELINE_WORKER = 3, PACELINE_BOTH = 4 }; /* roles; BOTH: worker and server */

/* Where a node stands in its job. */
typedef struct paceline_place {
  size_t size;
  int32_t role;    /* of paceline_join: PACELINE_WORKER (0 too) or PACELINE_BOTH. Others do not look at it */
  int32_t rank;    /* wanted, from 0; -1: any that is free */
  int32_t workers; /* of the job. Coordinator: at least 1. Others: what they expect, or 0 */
  /* Of the job, for the coordinator only; those in workers' processes count. 0: the workers train by collective operations. */
  int32_t servers;
  /* "HOST:PORT" or "unix:/PATH" of the coordinator. The coordinator itself listens there; port 0 is one that is free;
     NULL: `bind` and port 0. */
  const char* coordinator;
  /* The host of this machine at which the others reach this node; NULL: "127.0.0.1", or a file beside the coordinator's. One
     beyond the loopback needs the job's key, as does such a coordinator. */
  const char* bind;
  /* The file of the job's key (docs/security.md), the same for all its processes: whoever holds it is a member, and every
     connection is TLS; or a certificate of its own (PEM). NULL: what PACELINE_JOB_KEY_FILE of the environment names. */
  const char* job_key_file;
  /* As `--security`: "auto" (NULL too), encrypted with a key and on the loopback only without; "psk", a key is needed;
     "tls", a key or a certificate; "none", in the clear, for closed networks; "psk,clear-data", as with --allow-clear-data. */
  const char* security;
} paceline_place;

typedef struct paceline_info {
  size_t size;
  int32_t role;    /* one of the four */
  int32_t rank;    /* -1: not known yet */
  int32_t workers; /* of the job; 0: not known yet. So are the next */
  int32_t servers;
  int64_t first_iteration; /* 1, or one more than the checkpoint that the job goes on from */
  int64_t elements;        /* of all tensors together */
} paceline_info;

/* Starts a coordinator on a thread and returns when it listens. `job` may be NULL: of a job its time limits
 * count here, everything else comes with the workers. The schedule `tuned` is decided there. */
int32_t paceline_coordinate(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error);
/* Starts a server on a thread; it joins while this returns. `job` as above. */
int32_t paceline_serve(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error);
/* Begins to join as a worker, and returns. The job is copied. Every worker brings the same tensors and options: the coordinator
 * names the first difference. Errors: options that contradict each other, tensors that cannot be trained. */
int32_t paceline_join(const paceline_job* job, const paceline_place* place, paceline_node** node, paceline_error* error);
/* Worker: returns when everybody has joined and all tensors hold rank 0's initial values, or those of the checkpoint. Until
 * then a worker answers only this, paceline_node_info, paceline_interrupt and paceline_close. */
int32_t paceline_wait_joined(paceline_node* node, double seconds, paceline_error* error);

int32_t paceline_node_info(const paceline_node* node, paceline_info* info, paceline_error* error);
/* Coordinator: "HOST:PORT" where it listens. */
int32_t paceline_node_address(const paceline_node* node, paceline_text** address, paceline_error* error);
/* Coordinator, after paceline_finish: the report of `paceline train --json`; "null" when a worker has not reported. */
int32_t paceline_node_report(const paceline_node* node, paceline_text** json, paceline_error* error);

/* Worker: reports, and returns when the job is over for everybody: 0, or why it failed. Waits for the last iteration's values
 * first. Coordinator and server: waits for the end of the job. */
int32_t paceline_finish(paceline_node* node, double seconds, paceline_error* error);
/* This process cannot go on: the job ends for everybody with this sentence. `kind`: one of the errors but CANCELLED and
 * AGAIN. Returns 0 when it was told; what is called on the node from then on returns why the job ended. */
int32_t paceline_fail(paceline_node* node, int32_t kind, const char* message, paceline_error* error);
/* The user wants the job to end. Coordinator: after the iteration, and all report; a second time at once. Server, worker: at
 * once, with PACELINE_CANCELLED for everybody. May be called while another thread waits. */
int32_t paceline_interrupt(paceline_node* node, paceline_error* error);

/* ---- Training: calls of a worker that has joined. Iterations count from info.first_iteration.
 *
 * One iteration i:  for each layer in forward order  wait_layer(layer, i), then its forward;
 *                   backward; of each tensor as soon as its gradient is computed  gradient_ready(tensor);
 *                   backward_done(i, tensors without a gradient); step_done.
 * The library holds an array of values and one of gradients, in which each tensor has a place of its own. */

/* Where the tensor's values stand (float32, dense): after paceline_wait_joined the initial ones, after paceline_wait_layer
 * those of its iteration. They change between paceline_backward_done and the next paceline_wait_layer. There until the node
 * is closed. `count`: elements; may be NULL. */
int32_t paceline_tensor_value(paceline_node* node, uint32_t tensor, float** value, int64_t* count, paceline_error* error);
/* Where its gradient may be written instead of being copied there, after paceline_wait_free. */
int32_t paceline_tensor_gradient(paceline_node* node, uint32_t tensor, float** gradient, int64_t* count, paceline_error* error);

/* Returns when the layer's values are those that `iteration` is computed with. */
int32_t paceline_wait_layer(paceline_node* node, int32_t layer, int64_t iteration, double seconds, paceline_error* error);
/* Returns when all values hold every update up to and including `iteration`, the last one: before an evaluation. */
int32_t paceline_wait_all(paceline_node* node, int64_t iteration, double seconds, paceline_error* error);
/* Returns when the layer's gradients are not being sent any more and may be written in place; layer -1: all. Waits rarely. */
int32_t paceline_wait_free(paceline_node* node, int32_t layer, double seconds, paceline_error* error);
/* Tells the order in which forward passes need the layers: all `count` of the job, the first in front. With servers, gradients
 * leave and values come in this order from here on. Collectives keep the numbered one, since all begin alike. No bit changes. */
int32_t paceline_set_order(paceline_node* node, const int32_t* layers, size_t count, paceline_error* error);
/* Tells, with the option "told-rates" "1", the learning rate and weight decay (finite, the decay at least 0) of each group in the
 * iteration whose gradients come next. Call it once, before the first of them. `groups`: one more than a tensor's highest group.
 * In "bsp" all workers tell the same; otherwise servers apply a worker's gradients with that worker's rates. */
int32_t paceline_tell_rates(paceline_node* node, int64_t iteration, const double* learning_rates, const double* weight_decays,
                            size_t groups, paceline_error* error);
/* The tensor's gradient (its type, dense) is copied from `data` and leaves as soon as the schedule lets it; NULL: it is in place.
 * Once in an iteration, after the layer's paceline_wait_layer. Any threads. Hardly ever waits for the last one to be sent. */
int32_t paceline_gradient_ready(paceline_node* node, uint32_t tensor, const void* data, paceline_error* error);
/* The backward pass is over, and all calls of paceline_gradient_ready have returned; `unused` (may be NULL if `count` is 0)
 * names the tensors that have no gradient in this iteration. A tensor that no worker used keeps its value. */
int32_t paceline_backward_done(paceline_node* node, int64_t iteration, const uint32_t* unused, size_t count, paceline_error* error);

/* What all workers hear of an iteration with the options "optimizer" "mean" and "verdict" "1": then workers have optimizers of
 * their own, and the values are the mean gradients of the iteration before. */
typedef struct paceline_verdict {
  size_t size;
  double square_sum;         /* of all means that somebody used, exact but rounded once; not finite when one of them is not */
  int32_t non_finite_tensor; /* the first whose mean is not finite; -1: none */
  int32_t non_finite_rank;   /* the lowest whose gradient of it is not; -1: all were, and their sum is not */
  /* Room for `tensors` bytes, one for each tensor, or NULL: becomes 1 where no worker used it, and its mean is an old one. */
  uint8_t* unused;
  size_t tensors;
} paceline_verdict;

/* Returns when the verdict of `iteration`, the last one, is there. It follows the means, for which no gate waits. */
int32_t paceline_wait_verdict(paceline_node* node, int64_t iteration, double seconds, paceline_verdict* verdict,
                              paceline_error* error);

/* Indices of phase_seconds: where a worker's time goes. */
enum {
  PACELINE_LOAD = 0,
  PACELINE_PREPROCESS = 1,
  PACELINE_TRANSFER = 2,
  PACELINE_FORWARD = 3,
  PACELINE_BACKWARD = 4,
  PACELINE_PHASES = 5
};

/* What a worker tells of the iteration that it has done, for progress and report. */
typedef struct paceline_step {
  size_t size;
  int64_t samples; /* of this worker's mini-batch */
  double loss;     /* NaN: none */
  /* `phases` of them, without the time spent waiting in this library; NULL: the time since the last step counts for forward. */
  const double* phase_seconds;
  size_t phases; /* 0 or PACELINE_PHASES */
} paceline_step;

/* Once after each paceline_backward_done. `stopping`: 1 when somebody asked to stop; this was the last: go to paceline_finish. */
int32_t paceline_step_done(paceline_node* node, const paceline_step* step, int32_t* stopping, paceline_error* error);

/* ---- Questions */

/* Answers as JSON. `json`: the question's own settings; NULL: none.
 *   "questions"  the names of the questions; "version" is {"release": "0.1.0"}
 *   "options"    the options of a job: name, type, default, what is legal, sentence
 *   "schema"     a JSON schema of the options
 *   "errors"     the codes of errors: code, shown (PL-PORT-IN-USE), title, means, check, remedy
 *   "plan"       what can be planned: of each question name, purpose, keys and choices (the first value is the default)
 *   "plan slice" and so on: that question of `paceline plan`. `json` is a case, an object with its keys and choices, or an array
 *                of cases, answered by an array. A case without an answer has "feasible": false and a "reason"; a wrong one is
 *                refused, its key the subject. "plan algorithms", "plan mini-batch" and "plan job" load the solver CBC
 *                (libCbcSolver.so.3) where not everything fits; without it they are refused with PACELINE_IO. */
int32_t paceline_ask(const char* question, const char* json, paceline_text** answer, paceline_error* error);

/* "0.1.0". Not to be freed. A binding compares it with its own: header, library and binding are of one release. */
const char* paceline_version(void);
/* For bindings, to compare with their own layout: sizeof of the struct of that name, "paceline_error"; 0: there is none. */
size_t paceline_struct_size(const char* name);
/* In a fork's child: all handles of the parent are inert from here on. Needed only where the C library's fork() was avoided. */
void paceline_after_fork(void);
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#include "paceline/alike.h"           /* what ranks must do and have alike */
#include "paceline/communicator.h"    /* collective operations */
#include "paceline/optimizer_state.h" /* of servers */
#endif
