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
#include "job/update_options.h"
#include "job/wire_options.h"
#include "scheduling/schedule.h"
#include "scheduling/unit_plan.h"
#include "sync/sync_options.h"
#include "tensor/optimizer.h"
#include "wire/tensor_table.h"

namespace paceline::job {

struct PlanOptions {
  std::int32_t workers = 1, servers = 1;
  scheduling::ScheduleOptions schedule;
  sync::SyncOptions sync;
  UpdateOptions update;
  WireOptions wire;
  Iteration first = 1;          // the first iteration to train; larger after a resume
  Duration message_start_up{};  // paramserver/service/dear_sender.h
};

class Plan {
 public:
  // kBadRequest that names what is wrong: counts below 1, an invalid table or schedule, a group without options, options out of
  // range, clipping or skipping with a model other than BSP (their decisions are about one iteration of all workers).
  static Result<std::shared_ptr<const Plan>> make(wire::TensorTable table, PlanOptions options);

  const wire::TensorTable& table() const { return table_; }
  const PlanOptions& options() const { return options_; }
  const scheduling::UnitPlan& units() const { return units_; }
  // How gradients travel, and values with this label. The initial values of a job of means are the parameters that all begin with:
  // they travel as they are, means rounded.
  const tensor::Codec& gradient_codec() const { return *gradient_codec_; }
  const tensor::Codec& value_codec(Iteration label) const { return label < first_rounded_ ? *raw_codec_ : *value_codec_; }
  std::size_t elements(std::uint32_t unit) const { return static_cast<std::size_t>(units_.units[unit].elements); }
  // What the gradient of a unit is as a payload, in full; and its value with this label.
  std::size_t payload_bytes(std::uint32_t unit) const { return gradient_codec_->size(elements(unit)); }
  std::size_t value_bytes(std::uint32_t unit, Iteration label) const { return value_codec(label).size(elements(unit)); }
  // Of each layer, what comes back over links: all of it but what lives on `own_server`, which is in the worker's own process. What
  // batches of layers are planned from.
  std::vector<Bytes> pulled_by_layer(std::optional<Rank> own_server) const;
  std::int32_t layers() const { return static_cast<std::int32_t>(table_.layers.size()); }

  // What tensor `tensor` is updated with in `iteration` (weight decay of its group included), and at which rate.
  const tensor::OptimizerOptions& optimizer_of(std::uint32_t tensor) const;
  double learning_rate_of(std::uint32_t tensor, Iteration iteration) const;
  std::size_t groups() const { return optimizers_.size(); }  // of parameters, at least 1
  // What the endpoint of a member obeys.
  scheduling::EgressRules egress_rules() const;
  // The lowest server that has units with gradients: the one that predicts barriers, hands out mini-batches, and measures the
  // workers' pace.
  Rank pacing_server() const;
  // All servers that have units with gradients.
  std::vector<Rank> servers_with_units() const;
  // Whether workers do different numbers of iterations: mini-batches are handed out, and at the end final values are sent.
  bool uneven() const { return options_.sync.kind != sync::SyncKind::kBsp; }
  bool holds_updates() const { return options_.update.holds_updates(); }

  // For messages: `layer 14 "conv4_1"`.
  std::string layer_text(Layer layer) const;
  // Of a part of a unit: `layer 14 "conv4_1" (tensor "conv4_1.weight", unit 31)`.
  std::string part_text(std::uint32_t part) const;

 private:
  Plan() = default;

  wire::TensorTable table_;
  PlanOptions options_;
  scheduling::UnitPlan units_;
  std::vector<tensor::OptimizerOptions> optimizers_;  // by group
  std::shared_ptr<const tensor::Codec> gradient_codec_, value_codec_, raw_codec_;
  Iteration first_rounded_ = 0;  // the first label whose values travel with value_codec_
};

}  // namespace paceline::job
