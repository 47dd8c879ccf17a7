// Everything that the processes of a job must agree on, as typed on the command line, validated in one place. Workers bring
// their settings when they join; the coordinator compares them and hands them to the servers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/quantity.h"
#include "base/status.h"
#include "collectives/training/loop_options.h"
#include "paramserver/core/job_plan.h"
#include "runtime/compute_speed.h"
#include "tensor/optimizer.h"
#include "wire/control.h"

namespace paceline::runtime {

inline constexpr const char* kNoCollective = "none";

struct JobSettings {
  std::string model = "lenet";  // or "replay:FILE", a table of layers (replay/table.h)
  std::string dataset = "mnist-5k";
  std::string optimizer = "sgd";
  std::string learning_rate = "0.05";  // a number or a schedule, tensor/learning_rate.h
  double momentum = 0.9;               // 0 .. below 1
  double weight_decay = 0;             // at least 0
  double clip_norm = 0;                // of the mean gradient's global norm; 0: no clipping
  std::int64_t mini_batch = 32;        // samples per worker, at least 1
  std::int64_t iterations = 0;         // 0: as many as `epochs` take
  std::int64_t epochs = 0;             // data epochs; 0 and no iterations: 1
  std::int64_t evaluate_every = 0;     // iterations; 0: only at the end
  std::int64_t evaluate_late = 0;      // 1: copies of the parameters are kept, and evaluated when the training is over
  std::int64_t seed = 1;
  std::string schedule = "tuned";
  std::string slice;                   // largest slice: parameters, or bytes with a unit; "": the schedule's own
  std::string merge;                   // what is merged, the same way
  std::string batching;                // where values come back in batches: how these are planned; "": exact
  std::string window = "auto";         // scheduling/window.h
  std::string back;                    // --return: how values come back; "": the schedule's own
  std::string push;                    // when gradients leave; "": the schedule's own
  std::string ordered_places = "all";  // scheduling/schedule.h
  std::string wire = "float32";        // of gradients and values that are sent (paramserver/core/wire_options.h)
  double loss_scale = 1;               // what gradients are multiplied by before they are rounded
  std::int64_t dgc_warm_up = 0;        // iterations until --wire dgc:SHARE sends no more than the share
  std::string sync = "bsp";
  std::string collective = kNoCollective;  // loop1, loop2, loop3, loop3-overlap: training without servers; none: with servers
  std::string algorithm = "best";          // of its operations: best, lp, ring, direct, mst, be
  std::int64_t broadcast_every = 0;        // iterations between broadcasts of all weights in loop3; 0: none
  std::string link_cost;                   // what its choices are made for: "ALPHA,BETA,GAMMA" (cost/link_cost.h), measured by the
                                           // coordinator; "": the default
  std::string convolutions;     // "conv2=fft,conv3=winograd", model/convolution_algorithm.h; "": LibTorch's choice everywhere
  std::int64_t staleness = 3;   // ssp
  std::int64_t lookahead = 15;  // elastic-bsp
  std::string objective = "waiting-share";  // elastic-bsp: or "span"
  std::int64_t history = 5;                 // elastic-bsp: intervals that a prediction is the median of
  std::string gradient_scale = "model";     // or "mean", "full" (sync/sync_options.h)
  std::string non_finite = "stop";          // stop, skip, apply
  std::string checkpoint;                   // directory; "": none
  std::int64_t checkpoint_every = 0;        // iterations; 0: only at the end or when interrupted
  std::int64_t resume = 0;                  // 1: from the newest good checkpoint in `checkpoint`
  std::string resume_from;            // what the coordinator found with `resume`: the checkpoint's folder; "": the job begins anew
  std::int64_t resume_iteration = 0;  // and its iteration
  std::string export_file;            // rank 0 writes the final model there; "": nowhere
  double deadline = 10;               // seconds of silence
  double stall_deadline = 600;        // seconds without progress
  std::int64_t pace = 0;              // 1: the pacing server tells the coordinator of every iteration and superstep
  std::int64_t trace = 0;             // 1: every process records a timeline for the coordinator, whose choice it is
  std::int64_t metrics = 0;           // 1: workers tell the coordinator about every iteration
  double scale = 1;                   // replay: divides the parameters and the sizes in schedules, at least 1
  std::string speed;                  // made-up share of the machine's speed, by rank: "1,1,0.5"; "": 1 (compute_speed.h)
  double jitter = 0;                  // of it, 0 .. 1

  bool operator==(const JobSettings&) const = default;
};

// The settings, or kBadRequest that names the option, its value and what is legal.
Result<JobSettings> validated(JobSettings settings);

// In a fixed order, by the names of the command line.
wire::Settings to_settings(const JobSettings& settings);
// Errors: kBadRequest for an unknown name or a value that is not one. Pairs that are missing keep their defaults.
Result<JobSettings> from_settings(const wire::Settings& settings);
// Every option's name in that order.
std::vector<std::string> setting_names();

Result<scheduling::ScheduleOptions> schedule_options(const JobSettings& settings);

// How a job with --collective trains. Errors: kBadRequest naming the option.
Result<collectives::TrainingOptions> training_options(const JobSettings& settings);
// The text of JobSettings::link_cost, exactly.
std::string link_cost_text(const cost::LinkCost& link);

// The file of "replay:FILE", or nothing when the model is a network.
std::optional<std::string> replay_file(const JobSettings& settings);

Result<paramserver::WireOptions> wire_options(const JobSettings& settings);

Result<sync::SyncOptions> sync_options(const JobSettings& settings);

Result<tensor::OptimizerOptions> optimizer_options(const JobSettings& settings);

// What of it, and of --clip-norm, is the servers' part: with --wire dgc:SHARE workers take the momentum and clip.
Result<tensor::OptimizerOptions> server_optimizer(const JobSettings& settings);
double server_clip_norm(const JobSettings& settings);

// How fast each of `workers` computes. Errors: kBadRequest, also when there is not one speed for each worker.
Result<ComputeSpeed> compute_speed(const JobSettings& settings, std::int32_t workers);

// What servers and workers derive from the settings and the table. `workers`: at least 1; `servers` too, but 0 in a job with
// --collective; `first`: the first iteration.
Result<std::shared_ptr<const paramserver::JobPlan>> make_job_plan(const JobSettings& settings, const wire::TensorTable& table,
                                                                  std::int32_t workers, std::int32_t servers, Iteration first);

}  // namespace paceline::runtime
