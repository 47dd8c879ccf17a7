#include "trainer/stepper.h"

#include <torch/torch.h>

namespace paceline::trainer {

using runtime::Phase;

Stepper::Stepper(ModuleAdapter& adapter, paramserver::WorkerClient& client, Rank rank) : adapter_(adapter), client_(client) {
  report_.rank = rank.value;
}

void Stepper::on_gradient(int tensor) {
  if (const Status status = client_.gradient_ready(static_cast<std::uint32_t>(tensor)); !status.ok() && gradient_failure_.ok())
    gradient_failure_ = status;
}

Result<double> Stepper::step(Iteration iteration, std::int64_t samples, const std::function<torch::Tensor()>& loss) {
  iteration_ = iteration;
  torch::Tensor result;
  PACELINE_RETURN_IF_ERROR(adapter_.run_forward(*this, [&] { result = loss(); }));
  const double value = result.item<double>();
  end_phase(Phase::kForward);
  take_waiting(Phase::kForward);

  PACELINE_RETURN_IF_ERROR(client_.wait_gradients_free());
  const std::vector<int> without = adapter_.run_backward(*this, [&] { result.backward(); });
  PACELINE_RETURN_IF_ERROR(gradient_failure_);
  unused_.assign(without.begin(), without.end());
  PACELINE_RETURN_IF_ERROR(client_.backward_done(iteration, unused_));
  end_phase(Phase::kBackward);

  if (report_.iterations == 0) report_.loss_first = value;
  report_.loss_last = value;
  ++report_.iterations;
  report_.samples += samples;
  return value;
}

Status Stepper::synchronise(Iteration iteration) {
  begin();
  PACELINE_RETURN_IF_ERROR(client_.wait_all(iteration));
  end_phase(Phase::kWait);
  take_waiting(Phase::kWait);
  return {};
}

void Stepper::end_phase(Phase phase) {
  const TimePoint now = clock_.now();
  report_.phases[phase] += seconds(now - mark_);
  mark_ = now;
}

void Stepper::end_loading(double load_seconds, double preprocess_seconds) {
  const double own = load_seconds + preprocess_seconds;
  const double share = own > 0 ? load_seconds / own : 1;
  const TimePoint now = clock_.now();
  const double waited = seconds(now - mark_);
  report_.phases[Phase::kLoad] += waited * share;
  report_.phases[Phase::kPreprocess] += waited * (1 - share);
  mark_ = now;
}

// Moves the time at gates out of the phase in which they stood.
void Stepper::take_waiting(Phase phase) {
  const paramserver::Account account = client_.take_account();
  report_.phases[phase] -= seconds(account.push + account.pull + account.update + account.wait);
  report_.phases[Phase::kPush] += seconds(account.push);
  report_.phases[Phase::kPull] += seconds(account.pull);
  report_.phases[Phase::kUpdate] += seconds(account.update);
  report_.phases[Phase::kWait] += seconds(account.wait);
  report_.overlapped_push += seconds(account.overlapped_push);
  report_.overlapped_pull += seconds(account.overlapped_pull);
  report_.bytes_pushed += account.bytes_pushed;
  report_.bytes_pulled += account.bytes_pulled;
}

}  // namespace paceline::trainer
