/* Fits y = w * x + b with two workers and a server, all of them threads of this process, through Paceline's C interface; then the
 * workers average what each of them measures by a collective operation. As processes of their own, on machines of their own, they
 * would make the same calls: only `place.coordinator` has to reach them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <paceline/paceline.h>

enum { WORKERS = 2, FEATURES = 3, SAMPLES = 64, ITERATIONS = 200 };
static const float TRUTH[FEATURES + 1] = {1.5f, -2.0f, 0.5f, 3.0f}; /* weights and bias */

typedef struct worker {
  pthread_t thread;
  int rank;
  const char* coordinator;
  const char* meeting; /* of the communicator */
  const char* optimizer;
  int failed;
} worker;

static paceline_error error_of_thread(void) {
  paceline_error error = {0};
  error.size = sizeof error;
  return error;
}

/* Says what went wrong; 0 if nothing has. */
static int failed(int32_t kind, const char* what, const paceline_error* error) {
  if (kind == PACELINE_DONE) return 0;
  fprintf(stderr, "linear_model: error: %s: %s (%s %s)\n", what, error->message, error->code, error->subject);
  return 1;
}
#define REQUIRE(call)                                    \
  do {                                                   \
    if (failed((call), #call, &error)) return 1;         \
  } while (0)

static paceline_place place_of(int32_t role, int32_t rank, const char* coordinator) {
  paceline_place place = {0};
  place.size = sizeof place;
  place.role = role;
  place.rank = rank;
  place.workers = WORKERS;
  place.servers = 1;
  place.coordinator = coordinator;
  return place;
}

/* This worker's mini-batch of an iteration: gradients of the mean squared error. Returns the loss. */
static double differentiate(int rank, int64_t iteration, const float* weights, const float* bias, float* dw, float* db) {
  unsigned seed = (unsigned)(iteration * WORKERS + rank);
  double loss = 0;
  for (int f = 0; f < FEATURES; ++f) dw[f] = 0;
  *db = 0;
  for (int sample = 0; sample < SAMPLES; ++sample) {
    float x[FEATURES], y = TRUTH[FEATURES], guess = *bias;
    for (int f = 0; f < FEATURES; ++f) {
      x[f] = (float)rand_r(&seed) / (float)RAND_MAX - 0.5f;
      y += TRUTH[f] * x[f];
      guess += weights[f] * x[f];
    }
    const float off = guess - y;
    loss += (double)(off * off) / SAMPLES;
    for (int f = 0; f < FEATURES; ++f) dw[f] += 2 * off * x[f] / SAMPLES;
    *db += 2 * off / SAMPLES;
  }
  return loss;
}

static int average(const worker* self, double* value) {
  paceline_error error = error_of_thread();
  paceline_communicator_options options = {0};
  options.size = sizeof options;
  options.rank = self->rank;
  options.ranks = WORKERS;
  options.coordinator = self->meeting;
  paceline_communicator* all;
  REQUIRE(paceline_communicator_open(&options, &all, &error));
  paceline_call call = {0};
  call.size = sizeof call;
  call.operation = PACELINE_ALLREDUCE;
  call.type = PACELINE_FLOAT64;
  call.reduction = PACELINE_MEAN;
  call.count = 1;
  call.input = value;
  call.output = value;
  paceline_request* request;
  REQUIRE(paceline_collective(all, &call, &request, &error));
  REQUIRE(paceline_wait(request, INFINITY, &error));
  REQUIRE(paceline_close(request, 1, &error));
  REQUIRE(paceline_close(all, 1, &error));
  return 0;
}

static int train(worker* self) {
  paceline_error error = error_of_thread();
  paceline_job* job;
  REQUIRE(paceline_job_new(&job, &error));
  REQUIRE(paceline_job_set(job, "optimizer", self->optimizer, &error));
  REQUIRE(paceline_job_set(job, "learning-rate", "0.3", &error));

  /* Two layers, so that the weights may be on their way while the bias is computed. Only rank 0's values count. */
  const float zeros[FEATURES] = {0};
  const int64_t shape[1] = {FEATURES};
  paceline_tensor weights = {0}, bias = {0};
  weights.size = bias.size = sizeof weights;
  weights.name = "line.weight";
  weights.shape = shape;
  weights.dimensions = 1;
  weights.value = zeros;
  bias.name = "shift.bias";
  bias.layer = 1;
  uint32_t w, b;
  REQUIRE(paceline_job_add_tensor(job, &weights, &w, &error));
  REQUIRE(paceline_job_add_tensor(job, &bias, &b, &error));

  const paceline_place place = place_of(PACELINE_WORKER, self->rank, self->coordinator);
  paceline_node* node;
  REQUIRE(paceline_join(job, &place, &node, &error));
  REQUIRE(paceline_wait_joined(node, INFINITY, &error));
  paceline_info info = {0};
  info.size = sizeof info;
  REQUIRE(paceline_node_info(node, &info, &error));

  float *values_w, *values_b;
  REQUIRE(paceline_tensor_value(node, w, &values_w, NULL, &error));
  REQUIRE(paceline_tensor_value(node, b, &values_b, NULL, &error));
  double loss = 0;
  int32_t stopping = 0;
  for (int64_t iteration = info.first_iteration; iteration <= ITERATIONS && !stopping; ++iteration) {
    float dw[FEATURES], db;
    REQUIRE(paceline_wait_layer(node, 0, iteration, INFINITY, &error));
    REQUIRE(paceline_wait_layer(node, 1, iteration, INFINITY, &error));
    loss = differentiate(self->rank, iteration, values_w, values_b, dw, &db);
    REQUIRE(paceline_gradient_ready(node, b, &db, &error));
    REQUIRE(paceline_gradient_ready(node, w, dw, &error));
    REQUIRE(paceline_backward_done(node, iteration, NULL, 0, &error));
    paceline_step step = {0};
    step.size = sizeof step;
    step.samples = SAMPLES;
    step.loss = loss;
    REQUIRE(paceline_step_done(node, &step, &stopping, &error));
  }
  REQUIRE(paceline_finish(node, INFINITY, &error));
  if (average(self, &loss)) return 1;
  printf("rank %d of %d: y = %.4f x1 + %.4f x2 + %.4f x3 + %.4f, loss %.2e\n", (int)info.rank, (int)info.workers, (double)values_w[0],
         (double)values_w[1], (double)values_w[2], (double)*values_b, loss);
  for (int f = 0; f < FEATURES; ++f) {
    if (fabsf(values_w[f] - TRUTH[f]) > 0.01f) self->failed = 1;
  }
  REQUIRE(paceline_close(node, 1, &error));
  REQUIRE(paceline_close(job, 0, &error));
  return 0;
}

static void* run(void* argument) {
  worker* self = argument;
  if (train(self)) self->failed = 1;
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: linear_model OPTIMIZER HOST:PORT     the address at which the workers meet for the collective operation\n");
    return 2;
  }
  paceline_error error = error_of_thread();
  paceline_node *coordinator, *server;
  paceline_place place = place_of(0, -1, NULL);
  REQUIRE(paceline_coordinate(NULL, &place, &coordinator, &error));
  paceline_text *address, *report;
  const char *where, *json;
  REQUIRE(paceline_node_address(coordinator, &address, &error));
  REQUIRE(paceline_text_bytes(address, &where, NULL, &error));
  place.coordinator = where;
  REQUIRE(paceline_serve(NULL, &place, &server, &error));

  worker workers[WORKERS] = {0};
  for (int rank = 0; rank < WORKERS; ++rank) {
    workers[rank].rank = rank;
    workers[rank].coordinator = where;
    workers[rank].meeting = arguments[2];
    workers[rank].optimizer = arguments[1];
    if (pthread_create(&workers[rank].thread, NULL, run, &workers[rank]) != 0) return 1;
  }
  int any_failed = 0;
  for (int rank = 0; rank < WORKERS; ++rank) {
    pthread_join(workers[rank].thread, NULL);
    any_failed |= workers[rank].failed;
  }
  if (any_failed) return 1;
  REQUIRE(paceline_finish(server, INFINITY, &error));
  REQUIRE(paceline_finish(coordinator, INFINITY, &error));
  REQUIRE(paceline_node_report(coordinator, &report, &error));
  REQUIRE(paceline_text_bytes(report, &json, NULL, &error));
  printf("report %s\n", json);
  REQUIRE(paceline_close(report, 0, &error));
  REQUIRE(paceline_close(address, 0, &error));
  REQUIRE(paceline_close(server, 1, &error));
  REQUIRE(paceline_close(coordinator, 1, &error));
  return 0;
}
