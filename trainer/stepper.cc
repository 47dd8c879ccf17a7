#include "trainer/stepper.h"

#include <torch/torch.h>

namespace paceline::trainer {

using report::Phase;

Stepper::Stepper(ModuleAdapter& adapter, runtime::WorkerProcess& process)
    : adapter_(adapter),
      exchange_(process.exchange()),
      timer_(process.exchange(), report_),
      slowdown_(process.compute_speed(), process.rank()) {
  report_.rank = process.rank().value;
}

Status Stepper::before_layer(Layer layer) {
  slowdown_.stretch();
  const Status status = exchange_.wait_layer(layer, iteration_);
  slowdown_.resume();
  return status;
}

void Stepper::on_gradient(int tensor) {
  slowdown_.stretch();
  if (const Status status = exchange_.gradient_ready(static_cast<std::uint32_t>(tensor)); !status.ok() && gradient_failure_.ok())
    gradient_failure_ = status;
}

Result<double> Stepper::step(Iteration iteration, std::int64_t samples, const std::function<torch::Tensor()>& loss) {
  iteration_ = iteration;
  slowdown_.begin(iteration);
  torch::Tensor result;
  PACELINE_RETURN_IF_ERROR(adapter_.run_forward(*this, [&] { result = loss(); }));
  const double value = result.item<double>();
  slowdown_.stretch();
  timer_.end(Phase::kForward);
  timer_.take_waiting(Phase::kForward);

  PACELINE_RETURN_IF_ERROR(exchange_.wait_gradients_free());
  slowdown_.resume();
  const std::vector<int> without = adapter_.run_backward(*this, [&] { result.backward(); });
  PACELINE_RETURN_IF_ERROR(gradient_failure_);
  slowdown_.stretch();
  unused_.assign(without.begin(), without.end());
  PACELINE_RETURN_IF_ERROR(exchange_.backward_done(iteration, unused_));
  timer_.end(Phase::kBackward);

  if (report_.iterations == 0) report_.loss_first = value;
  report_.loss_last = value;
  ++report_.iterations;
  report_.samples += samples;
  return value;
}

}  // namespace paceline::trainer
