// What the servers of a job compute, in plain loops: the yardstick of `--reference`, and what a replaying worker checks values
// with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "collectives/plan/additions.h"
#include "job/option.h"
#include "job/plan.h"
#include "tensor/learning_rate.h"
#include "tensor/optimizer.h"
#include "training/reference_dropping.h"
#include "wire/tensor_table.h"

namespace paceline::training {

struct UpdateRules {
  tensor::OptimizerOptions optimizer;
  tensor::Schedule learning_rate;
  double clip_norm = 0;  // 0: no clipping
  job::NonFinitePolicy non_finite = job::NonFinitePolicy::kStop;
  job::WireOptions wire;
  std::vector<job::ParameterGroup> groups;  // empty: one, with the optimizer's weight decay
};

// Puts the tensors of `table` into their groups. Errors: kBadRequest, as validated(settings) finds them; a group without tensors.
Result<UpdateRules> update_rules(const job::JobSpec& settings, wire::TensorTable& table);

// The sums and optimizers in plain loops, written from their definitions (tensor/optimizer.h states them) and sharing no code with
// tensor/ or paramserver/. One object per job.
class ReferenceUpdate {
 public:
  // `additions`: in which order gradients are summed; nothing: in rank order.
  ReferenceUpdate(const UpdateRules& rules, const wire::TensorTable& table,
                  std::optional<collectives::Additions> additions = std::nullopt);

  // Before the first iteration: the workers' parameters become what they get from the servers, which keep the given ones. Needed
  // with a narrow codec only.
  void begin(std::span<float> parameters);

  // `gradients[w]` is worker w's, in forward order; `used[w][t]` tells whether worker w used tensor t.
  // Errors: kCorrupt naming worker, layer and iteration, when a gradient is not finite and the job is to stop then.
  Status apply(Iteration iteration, const std::vector<std::vector<float>>& gradients, const std::vector<std::vector<char>>& used,
               std::span<float> parameters);

 private:
  std::vector<float> mean_of(const std::vector<std::vector<float>>& gradients) const;
  bool receive(Iteration iteration, const std::vector<std::vector<float>>& computed, const std::vector<std::vector<char>>& used);
  void update(Iteration iteration, const std::vector<std::vector<char>>& used, std::span<const float> mean,
              std::span<float> parameters);
  Status non_finite(Iteration iteration, const std::vector<std::vector<float>>& gradients, std::span<const float> mean) const;
  float clip_coefficient(const std::vector<float>& gradient) const;
  void step(std::size_t tensor, double learning_rate, std::span<const float> gradient, std::span<float> parameters);

  UpdateRules rules_;
  wire::TensorTable table_;
  std::optional<collectives::Additions> additions_;
  std::vector<std::int64_t> offsets_;         // of the table
  std::vector<std::int64_t> steps_;           // by tensor
  std::vector<float> first_, second_;         // optimizer state
  std::vector<float> values_;                 // with a narrow codec: the servers' values
  std::vector<std::vector<float>> received_;  // gradients as the servers get them, where that is not as they were computed
  std::vector<ReferenceDropping> dropping_;   // by worker
};

}  // namespace paceline::training
