// What every worker and server of a job knows alike: the tensors, the units they are cut into, and how updates are made. Built once
// from the job's options; immutable afterwards, so any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "paramserver/core/wire_options.h"
#include "scheduling/schedule.h"
#include "scheduling/unit_plan.h"
#include "sync/sync_options.h"
#include "tensor/learning_rate.h"
#include "tensor/optimizer.h"
#include "wire/tensor_table.h"

namespace paceline::paramserver {

// What happens when a gradient holds an infinity or a NaN.
enum class NonFinitePolicy {
  kStop,   // the job stops and names worker, layer and iteration
  kSkip,   // the iteration changes nothing on any server: values, optimizer state and step counts stay. Costs overlap: every update
           // of an iteration is held until all gradients of the iteration have arrived on all servers.
  kApply,  // it is applied like any other
};
const char* to_string(NonFinitePolicy policy);  // "stop", "skip", "apply"
Result<NonFinitePolicy> parse_non_finite_policy(std::string_view text);

// Tensors that are updated alike; TensorInfo::group is an index into UpdateOptions::groups.
struct ParameterGroup {
  double learning_rate_factor = 1;  // times the schedule's rate; finite, at least 0
  double weight_decay = 0;          // finite, at least 0
};

struct UpdateOptions {
  tensor::OptimizerOptions optimizer;  // its weight_decay is that of group 0 when `groups` is empty, and not used otherwise
  tensor::Schedule learning_rate;      // by iteration
  // Largest global norm of an iteration's gradient (of the mean over the workers); 0: not clipped. The same bits for any number of
  // servers and any cut (tensor/exact_square_sum.h). Costs overlap like NonFinitePolicy::kSkip.
  double clip_norm = 0;
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  std::vector<ParameterGroup> groups;  // empty: one group
};

struct JobOptions {
  std::int32_t workers = 1, servers = 1;
  scheduling::ScheduleOptions schedule;
  sync::SyncOptions sync;
  UpdateOptions update;
  WireOptions wire;
  Iteration first = 1;  // the first iteration to train; larger after a resume
};

class JobPlan {
 public:
  // kBadRequest that names what is wrong: counts below 1, an invalid table or schedule, a group without options, options out of
  // range, clipping or skipping with a model other than BSP (their decisions are about one iteration of all workers).
  static Result<std::shared_ptr<const JobPlan>> make(wire::TensorTable table, JobOptions options);

  const wire::TensorTable& table() const { return table_; }
  const JobOptions& options() const { return options_; }
  const scheduling::UnitPlan& units() const { return units_; }
  // What a unit's value is as a payload, and its gradient; with WireOptions::drops() the gradient may be less.
  std::size_t payload_bytes(std::uint32_t unit) const {
    return static_cast<std::size_t>(units_.units[unit].elements) * options_.wire.element_bytes();
  }
  // Of each layer, what comes back over links: all of it but what lives on `own_server`, which is in the worker's own process. What
  // batches of layers are planned from.
  std::vector<Bytes> pulled_by_layer(std::optional<Rank> own_server) const;
  std::int32_t layers() const { return static_cast<std::int32_t>(table_.layers.size()); }

  // What tensor `tensor` is updated with in `iteration` (weight decay of its group included), and at which rate.
  const tensor::OptimizerOptions& optimizer_of(std::uint32_t tensor) const;
  double learning_rate_of(std::uint32_t tensor, Iteration iteration) const;
  // The lowest server that has units: the one that predicts barriers, hands out mini-batches, and measures the workers' pace.
  Rank pacing_server() const;
  // Whether workers do different numbers of iterations: mini-batches are handed out, and at the end final values are sent.
  bool uneven() const { return options_.sync.kind != sync::SyncKind::kBsp; }
  // Whether updates are held until the whole iteration is there on all servers.
  bool holds_updates() const;

  // For messages: `layer 14 "conv4_1"`.
  std::string layer_text(Layer layer) const;

 private:
  JobPlan() = default;

  wire::TensorTable table_;
  JobOptions options_;
  scheduling::UnitPlan units_;
  std::vector<tensor::OptimizerOptions> optimizers_;  // by group
};

}  // namespace paceline::paramserver
