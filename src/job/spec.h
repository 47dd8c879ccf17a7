// A job as a value: everything that its processes must agree on. Workers bring it when they join, as the texts of job/option.h; the
// coordinator compares them and hands them on. Plain data, any thread; the defaults make a legal job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "cost/link_cost.h"
#include "job/compute_speed.h"
#include "job/loop_options.h"
#include "job/parameter_groups.h"
#include "job/schedule_choice.h"
#include "job/update_options.h"
#include "job/wire_options.h"
#include "model/convolution_algorithm.h"
#include "sync/sync_options.h"

namespace paceline::job {

struct Task {
  std::string model = "lenet";  // or "replay:FILE", a table of layers (replay/table.h)
  std::string dataset = "mnist-5k";
  std::int64_t mini_batch = 32;     // samples per worker, at least 1
  std::int64_t iterations = 0;      // 0: as many as `epochs` take
  std::int64_t epochs = 0;          // data epochs; 0 and no iterations: 1
  std::int64_t evaluate_every = 0;  // iterations; 0: only at the end
  bool evaluate_late = false;       // copies of the parameters are kept, and evaluated when the training is over
  std::int64_t seed = 1;
  model::ConvolutionChoice convolutions;  // layers that are not named run LibTorch's choice
  double scale = 1;                       // replay: divides the parameters and the sizes in schedules, at least 1
  double message_start_up = 0;            // replay: seconds that each message of values takes before it leaves its server

  bool operator==(const Task&) const = default;
};

// Training by collective operations.
struct LoopChoice {
  std::optional<Loop> loop;                         // nothing: with servers
  std::optional<collectives::Algorithm> algorithm;  // nothing: the best
  std::optional<Bytes> block;                       // of the linear pipeline, not divided by `scale`; nothing: the best
  Iteration broadcast_every = 0;                    // loop3; 0: never
  std::optional<cost::LinkCost> link;               // what its choices are made for, measured by the coordinator

  bool operator==(const LoopChoice&) const = default;
};

struct Saving {
  std::string directory;    // of checkpoints; "": none
  std::string key_file;     // of the key that seals them; "": only accidents are noticed
  std::int64_t every = 0;   // iterations; 0: only at the end or when interrupted
  bool resume = false;      // from the newest good checkpoint in `directory`
  std::string from;         // what the coordinator found with `resume`: the checkpoint's folder; "": the job begins anew
  Iteration iteration = 0;  // and its iteration,
  std::string manifest;     // and its manifest's checksum: what lies there later may be another one
  std::string export_file;  // rank 0 writes the final model there; "": nowhere

  bool operator==(const Saving&) const = default;
};

struct Limits {
  double deadline = 10;         // seconds of silence
  double stall_deadline = 600;  // seconds without progress

  bool operator==(const Limits&) const = default;
};

struct Watching {
  bool pace = false;     // the pacing server tells the coordinator of every iteration and superstep
  bool trace = false;    // every process records a timeline for the coordinator, whose choice it is
  bool metrics = false;  // workers tell the coordinator about every iteration

  bool operator==(const Watching&) const = default;
};

struct JobSpec {
  Task task;
  UpdateOptions update;  // its groups follow from `groups` and the tensors, its learning rate from learning_rate_of()
  std::optional<tensor::Schedule> learning_rate;  // nothing: the optimizer's usual one
  std::vector<GroupRule> groups;
  ScheduleChoice schedule;
  WireOptions wire;  // momentum, nesterov and clip_norm follow from `update`: wire_of()
  sync::SyncOptions sync;
  LoopChoice loop;
  std::vector<double> speed;  // made-up share of the machine's speed, by rank; empty: 1
  double jitter = 0;          // of it, 0 .. 1
  Saving saving;
  Limits limits;
  Watching watching;

  bool has_servers() const { return !loop.loop; }
  bool operator==(const JobSpec&) const = default;
};

// The job, with what follows from it filled in, or kBadRequest that names the option, its value and what is legal.
Result<JobSpec> validated(JobSpec spec);

// The file of "replay:FILE", or nothing when the model is a network.
std::optional<std::string> replay_file(const JobSpec& spec);

// What follows from several parts of a job. Errors: kBadRequest naming the option.
Result<scheduling::ScheduleOptions> schedule_of(const JobSpec& spec);
// Requires a loop.
Result<TrainingOptions> training_of(const JobSpec& spec);
// With dgc workers take the optimizer's momentum and clip.
Result<WireOptions> wire_of(const JobSpec& spec);
// As it was given, or the optimizer's usual rate.
tensor::Schedule learning_rate_of(const JobSpec& spec);
// What of `update` is the servers' part with dgc; all of it otherwise.
UpdateOptions server_update(const JobSpec& spec);
// How fast each of `workers` computes; also refused when there is not one speed for each worker.
Result<ComputeSpeed> compute_speed(const JobSpec& spec, std::int32_t workers);

}  // namespace paceline::job
