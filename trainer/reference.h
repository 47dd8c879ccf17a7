// The yardstick: the same job in one process, W virtual workers one after the other, no server, no network, none of our vector
// kernels. Its parameters are what every distributed BSP run must equal bit for bit.
#pragma once

#include <functional>

#include "paramserver/core/job_plan.h"
#include "runtime/report.h"
#include "trainer/workload.h"

namespace paceline::trainer {

struct UpdateRules {
  tensor::OptimizerOptions optimizer;
  tensor::Schedule learning_rate;
  double clip_norm = 0;  // 0: no clipping
  paramserver::NonFinitePolicy non_finite = paramserver::NonFinitePolicy::kStop;
};

// The sums and optimizers in plain loops, written from their definitions (tensor/optimizer.h states them) and sharing no code with
// tensor/ or paramserver/. One object per job.
class ReferenceUpdate {
 public:
  ReferenceUpdate(const UpdateRules& rules, const wire::TensorTable& table);

  // `gradients[w]` is worker w's, in forward order; `used[w][t]` tells whether worker w used tensor t.
  // Errors: kCorrupt naming worker, layer and iteration, when a gradient is not finite and the job is to stop then.
  Status apply(Iteration iteration, const std::vector<std::vector<float>>& gradients, const std::vector<std::vector<char>>& used,
               std::span<float> parameters);

 private:
  Status non_finite(Iteration iteration, const std::vector<std::vector<float>>& gradients, std::span<const float> mean) const;
  float clip_coefficient(const std::vector<float>& gradient) const;
  void step(std::size_t tensor, double learning_rate, std::span<const float> gradient, std::span<float> parameters);

  UpdateRules rules_;
  wire::TensorTable table_;
  std::vector<std::int64_t> offsets_;  // of the table
  std::vector<std::int64_t> steps_;    // by tensor
  std::vector<float> first_, second_;  // optimizer state
};

struct Progress {
  Iteration iteration = 0, last = 0;
  double loss = 0;
  double accuracy = -1;  // -1: not evaluated in this iteration
};

// Runs the whole job; `progress` after every iteration; stops early with kCancelled when `stopped()` says so.
Result<std::vector<runtime::WorkerReport>> run_reference(Workload& workload, const runtime::JobSettings& settings,
                                                         std::int32_t workers, const std::function<void(const Progress&)>& progress,
                                                         const std::function<bool()>& stopped);

}  // namespace paceline::trainer
