// One iteration of a worker after the other: gates, forward, backward, gradients, and where the time went. What the trainer's own
// loop and the public API (paceline/torch.h) share. Training thread only.
#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

#include "trainer/module_adapter.h"
#include "training/phase_timer.h"
#include "training/slowdown.h"

namespace paceline::trainer {

class Stepper final : private LayerObserver {
 public:
  // Both outlive it.
  Stepper(ModuleAdapter& adapter, runtime::WorkerProcess& process);

  // Marks the beginning of an iteration; what passes until the next mark belongs to the phase named there.
  void begin() { timer_.begin(); }
  training::PhaseTimer& timer() { return timer_; }

  // Forward and backward of `iteration`: `loss` computes the loss, its layers' gates open as their parameters arrive, and gradients
  // leave as they are finished. Returns the loss.
  Result<double> step(Iteration iteration, std::int64_t samples, const std::function<torch::Tensor()>& loss);

  // Returns when the parameters hold every update up to `iteration`.
  Status synchronise(Iteration iteration) { return timer_.synchronise(iteration); }

  report::WorkerReport& report() { return report_; }

 private:
  Status before_layer(Layer layer) override;
  void on_gradient(int tensor) override;

  ModuleAdapter& adapter_;
  exchange::GradientExchange& exchange_;
  Iteration iteration_ = 0;
  Status gradient_failure_;
  std::vector<std::uint32_t> unused_;
  report::WorkerReport report_;
  training::PhaseTimer timer_;
  training::Slowdown slowdown_;
};

}  // namespace paceline::trainer
