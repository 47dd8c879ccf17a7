#include "job/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::job {
namespace {

Status check_options(const PlanOptions& options) {
  if (options.workers < 1) return error(ErrorKind::kBadRequest, "--workers {} is illegal; give at least 1", options.workers);
  if (options.servers < 1) return error(ErrorKind::kBadRequest, "--servers {} is illegal; give at least 1", options.servers);
  if (options.first < 1)
    return error(ErrorKind::kBadRequest, "a job cannot begin with iteration {}; the first is 1", options.first);
  PACELINE_RETURN_IF_ERROR(scheduling::validated(options.schedule).status());
  PACELINE_RETURN_IF_ERROR(sync::validated(options.sync).status());
  PACELINE_RETURN_IF_ERROR(tensor::validated(options.update.optimizer).status());
  PACELINE_RETURN_IF_ERROR(validated(options.wire).status());
  const UpdateOptions& update = options.update;
  if (!(update.clip_norm >= 0) || std::isinf(update.clip_norm)) {
    return error(ErrorKind::kBadRequest, "--clip-norm {} is illegal; give a finite number above 0, or 0 for no clipping",
                 update.clip_norm);
  }
  if (options.sync.kind != sync::SyncKind::kBsp && (update.clip_norm > 0 || update.non_finite == NonFinitePolicy::kSkip)) {
    return error(ErrorKind::kBadRequest, "--sync {} has no iteration that all workers share, so {} is illegal; use --sync bsp",
                 sync::to_text(options.sync.kind), update.clip_norm > 0 ? "--clip-norm" : "skipping of non-finite gradients");
  }
  const bool mean = update.optimizer.kind == tensor::OptimizerKind::kMean;
  if (mean && options.wire.drops())
    return error(ErrorKind::kBadRequest, "--optimizer mean is for --wire float32, float16 and bfloat16");
  if (mean && (options.sync.kind != sync::SyncKind::kBsp || update.clip_norm > 0 || update.non_finite == NonFinitePolicy::kSkip))
    return error(ErrorKind::kBadRequest, "--optimizer mean is for --sync bsp without --clip-norm and --non-finite skip");
  if (update.verdict && !mean) return error(ErrorKind::kBadRequest, "--verdict is for --optimizer mean");
  if (update.verdict_first && !update.verdict) return error(ErrorKind::kBadRequest, "--verdict-first is for --verdict");
  if (update.told_rates && mean) return error(ErrorKind::kBadRequest, "--told-rates is for optimizers that make steps");
  for (std::size_t i = 0; i < update.groups.size(); ++i) {
    const ParameterGroup& group = update.groups[i];
    if (!(group.learning_rate_factor >= 0) || std::isinf(group.learning_rate_factor)) {
      return error(ErrorKind::kBadRequest, "parameter group {} has the learning-rate factor {}; give a finite number, at least 0",
                   i, group.learning_rate_factor);
    }
    if (!(group.weight_decay >= 0) || std::isinf(group.weight_decay)) {
      return error(ErrorKind::kBadRequest, "parameter group {} has the weight decay {}; give a finite number, at least 0", i,
                   group.weight_decay);
    }
  }
  return {};
}

// With told rates a tensor's group is what it says; as many as there are tensors are enough.
void add_groups(const wire::TensorTable& table, UpdateOptions& update) {
  std::size_t groups = 1;
  for (const wire::TensorInfo& tensor : table.tensors)
    groups = std::max(groups, std::min(static_cast<std::size_t>(std::max(tensor.group, 0)) + 1, table.tensors.size()));
  update.groups.assign(groups, {.weight_decay = update.optimizer.weight_decay});
}

}  // namespace

Result<std::shared_ptr<const Plan>> Plan::make(wire::TensorTable table, PlanOptions options) {
  PACELINE_RETURN_IF_ERROR(wire::validate(table));
  PACELINE_RETURN_IF_ERROR(check_options(options));
  if (options.update.told_rates) add_groups(table, options.update);
  const std::size_t groups = std::max<std::size_t>(options.update.groups.size(), 1);
  std::vector<scheduling::TensorExtent> extents;
  extents.reserve(table.tensors.size());
  for (const wire::TensorInfo& tensor : table.tensors) {
    if (tensor.group < 0 || static_cast<std::size_t>(tensor.group) >= groups) {
      return error(ErrorKind::kBadRequest, "tensor \"{}\" is in parameter group {}; legal are 0 to {}", tensor.name, tensor.group,
                   groups - 1);
    }
    extents.push_back({tensor.elements(), tensor.layer, tensor.frozen});
  }
  std::shared_ptr<Plan> plan(new Plan);
  PACELINE_ASSIGN_OR_RETURN(plan->units_, scheduling::make_unit_plan(extents, options.schedule.cut, options.servers));
  plan->units_.of_layer.resize(table.layers.size(), {static_cast<std::uint32_t>(plan->units_.units.size()),
                                                     static_cast<std::uint32_t>(plan->units_.units.size())});
  for (const ParameterGroup& group : options.update.groups) {
    plan->optimizers_.push_back(options.update.optimizer);
    plan->optimizers_.back().weight_decay = group.weight_decay;
  }
  if (plan->optimizers_.empty()) plan->optimizers_.push_back(options.update.optimizer);
  plan->gradient_codec_ = options.wire.gradient_codec();
  plan->value_codec_ = options.wire.value_codec();
  plan->raw_codec_ = tensor::dense_codec(tensor::DType::kFloat32);
  if (options.update.optimizer.kind == tensor::OptimizerKind::kMean) plan->first_rounded_ = options.first;
  plan->table_ = std::move(table);
  plan->options_ = std::move(options);
  return std::shared_ptr<const Plan>(std::move(plan));
}

const tensor::OptimizerOptions& Plan::optimizer_of(std::uint32_t tensor) const {
  return optimizers_[static_cast<std::size_t>(table_.tensors[tensor].group)];
}

double Plan::learning_rate_of(std::uint32_t tensor, Iteration iteration) const {
  const double rate = tensor::learning_rate(options_.update.learning_rate, iteration);
  if (options_.update.groups.empty()) return rate;
  return rate * options_.update.groups[static_cast<std::size_t>(table_.tensors[tensor].group)].learning_rate_factor;
}

scheduling::EgressRules Plan::egress_rules() const {
  scheduling::EgressRules rules = scheduling::egress_rules(options_.schedule);
  rules.pushes_first = options_.update.verdict_first;
  return rules;
}

std::vector<Bytes> Plan::pulled_by_layer(std::optional<Rank> own_server) const {
  std::vector<Bytes> bytes(static_cast<std::size_t>(layers()));
  for (const scheduling::Unit& unit : units_.units) {
    if (unit.server == own_server || unit.id >= units_.moving) continue;
    bytes[static_cast<std::size_t>(unit.layer.index)] += Bytes{static_cast<std::int64_t>(payload_bytes(unit.id))};
  }
  return bytes;
}

Rank Plan::pacing_server() const {
  Rank server{0};
  while (server.value < options_.servers && units_.moving_of(server).empty()) ++server.value;
  return server;
}

std::vector<Rank> Plan::servers_with_units() const {
  std::vector<Rank> servers;
  for (Rank server{0}; server.value < options_.servers; ++server.value) {
    if (!units_.moving_of(server).empty()) servers.push_back(server);
  }
  return servers;
}

std::string Plan::layer_text(Layer layer) const {
  if (layer.index < 0 || layer.index >= layers()) return fmt::format("layer {}", layer.index);
  return fmt::format("layer {} \"{}\"", layer.index, table_.layers[static_cast<std::size_t>(layer.index)]);
}

std::string Plan::part_text(std::uint32_t part) const {
  const scheduling::Part& planned = units_.parts[part];
  const wire::TensorInfo& tensor = table_.tensors[planned.tensor];
  return fmt::format("{} (tensor \"{}\", unit {})", layer_text(tensor.layer), tensor.name, planned.unit);
}

}  // namespace paceline::job
