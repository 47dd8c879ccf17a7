// One iteration of a worker after the other: gates, forward, backward, gradients, and where the time went. What the trainer's own
// loop and the public API (paceline/torch.h) share. Training thread only.
#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

#include "base/clock.h"
#include "paramserver/service/worker_client.h"
#include "runtime/report.h"
#include "trainer/module_adapter.h"

namespace paceline::trainer {

class Stepper final : private LayerObserver {
 public:
  Stepper(ModuleAdapter& adapter, paramserver::WorkerClient& client, Rank rank);

  // Marks the beginning of an iteration; what passes until the next mark belongs to the phase named there.
  void begin() { mark_ = clock_.now(); }
  void end_phase(runtime::Phase phase);
  // The loader's wait, split as the loader spent its own time.
  void end_loading(double load_seconds, double preprocess_seconds);

  // Forward and backward of `iteration`: `loss` computes the loss, its layers' gates open as their parameters arrive, and gradients
  // leave as they are finished. Returns the loss.
  Result<double> step(Iteration iteration, std::int64_t samples, const std::function<torch::Tensor()>& loss);

  // Returns when the parameters hold every update up to `iteration`.
  Status synchronise(Iteration iteration);

  runtime::WorkerReport& report() { return report_; }

 private:
  Status before_layer(Layer layer) override { return client_.wait_layer(layer, iteration_); }
  void on_gradient(int tensor) override;
  void take_waiting(runtime::Phase phase);

  const SystemClock clock_;
  ModuleAdapter& adapter_;
  paramserver::WorkerClient& client_;
  Iteration iteration_ = 0;
  Status gradient_failure_;
  std::vector<std::uint32_t> unused_;
  runtime::WorkerReport report_;
  TimePoint mark_{};
};

}  // namespace paceline::trainer
