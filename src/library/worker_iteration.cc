// An iteration of a worker, call by call.
#include <algorithm>
#include <limits>

#include "library/worker_node.h"
#include "scheduling/urgency.h"

namespace paceline::library {

using report::Phase;

Result<bool> WorkerNode::wait_layer(std::int32_t layer, Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_layer"));
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Layer> gate, layer_of(layer));
  if (gate) return settled(exchange().wait_layer(*gate, iteration, limit));
  if (iteration == exchange().current()) return true;
  return refusal(kOrder, "iteration", "the values of iteration {} are waited for in iteration {}", iteration, exchange().current());
}

Result<bool> WorkerNode::wait_all(Iteration iteration, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_all"));
  if (const Iteration current = exchange().current(); iteration < 0 || iteration >= current)
    return refusal(kOrder, "iteration", "iteration {} is not over; the last one is {}", iteration, current - 1);
  return settled(exchange().wait_all(iteration, limit));
}

Result<bool> WorkerNode::wait_free(std::int32_t layer, Duration limit) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_free"));
  if (layer == -1) return settled(exchange().wait_free(std::nullopt, limit));
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Layer> gate, layer_of(layer));
  if (!gate) return true;
  return settled(exchange().wait_free(*gate, limit));
}

Result<bool> WorkerNode::wait_verdict(Iteration iteration, Duration limit, paceline_verdict& verdict) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_wait_verdict"));
  exchange::Verdict heard;
  PACELINE_ASSIGN_OR_RETURN(const bool over, settled(exchange().wait_verdict(iteration, limit, heard)));
  if (!over) return false;
  verdict.square_sum = heard.square_sum;
  verdict.non_finite_tensor = verdict.non_finite_rank = -1;
  if (heard.non_finite) {
    verdict.non_finite_tensor = static_cast<std::int32_t>(job_.numbers.tensor_at(heard.non_finite->tensor));
    verdict.non_finite_rank = heard.non_finite->rank.value;
  }
  for (std::uint32_t place = 0; verdict.unused != nullptr && place < job_.table.tensors.size(); ++place)
    verdict.unused[job_.numbers.tensor_at(place)] = heard.unused_by_all(place) ? 1 : 0;
  return true;
}

// In the job's table, whose layer of frozen tensors comes last; the program's layers of frozen tensors alone have no gate.
Status WorkerNode::set_order(std::span<const std::int32_t> layers) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_set_order"));
  scheduling::Urgency all(job_.numbers.layers());
  if (const Status status = all.set(layers); !status.ok()) return refusal("illegal", "layers", "{}", status.message());
  std::vector<std::int32_t> order;
  for (const std::int32_t layer : layers) {
    if (const auto gate = job_.numbers.layer(layer)) order.push_back(gate->index);
  }
  while (order.size() < job_.table.layers.size()) order.push_back(static_cast<std::int32_t>(order.size()));
  return settled(exchange().set_order(order));
}

Status WorkerNode::tell_rates(Iteration iteration, std::span<const double> learning_rates, std::span<const double> weight_decays) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_tell_rates"));
  const std::size_t groups = static_cast<std::size_t>(exchange().plan().groups());
  if (learning_rates.size() != groups)  // before they are read
    return refusal("illegal", "groups", "rates of {} parameter groups; the job has {}", learning_rates.size(), groups);
  std::vector<exchange::GroupRates> rates;
  for (std::size_t group = 0; group < learning_rates.size(); ++group)
    rates.push_back({learning_rates[group], weight_decays[group]});
  return settled(exchange().tell_rates(iteration, rates));
}

Status WorkerNode::gradient_ready(std::uint32_t tensor, const void* data) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_gradient_ready"));
  PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
  const std::uint32_t place = job_.numbers.place(tensor);
  if (job_.given[place].type != tensor::DType::kFloat32 && !is_even(data))
    return refusal("illegal", "data", "the gradient of \"{}\" has 16 bits an element and stands at an odd address",
                   job_.table.tensors[place].name);
  PACELINE_RETURN_IF_ERROR(settled(exchange().begin_gradient(place)));
  exchange().forward_done();
  Status taken = data == nullptr ? Status() : settled(exchange().wait_gradient_free(place));
  if (taken.ok()) {
    if (data != nullptr) copy_given(place, data, span_in(gradients_, place));
    taken = settled(exchange().gradient_ready(place));
  }
  if (!taken.ok()) exchange().withdraw_gradient(place);  // what is refused has done nothing: it may come again
  return taken;
}

Status WorkerNode::backward_done(Iteration iteration, std::span<const std::uint32_t> unused) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_backward_done"));
  const std::lock_guard lock(steps_);
  if (const Iteration current = exchange().current(); stepped_ + 1 != current)
    return refusal(kOrder, "node", "iteration {} is over, but paceline_step_done was not called for it", current - 1);
  if (unused.size() > job_.table.tensors.size())
    return refusal("illegal", "count", "{} tensors are unused; the job has {}", unused.size(), job_.table.tensors.size());
  unused_.clear();
  for (const std::uint32_t tensor : unused) {
    PACELINE_RETURN_IF_ERROR(check_tensor(tensor));
    unused_.push_back(job_.numbers.place(tensor));
  }
  exchange().forward_done();
  return settled(exchange().backward_done(iteration, unused_));
}

Result<bool> WorkerNode::step_done(const paceline_step& step) {
  PACELINE_RETURN_IF_ERROR(require_training("paceline_step_done"));
  const std::lock_guard lock(steps_);
  if (const Iteration current = exchange().current(); stepped_ + 2 != current)
    return refusal(kOrder, "node", "iteration {} is not over; call paceline_backward_done first, once for each step", current);
  const double before = report_.phases.total();
  const TimePoint ended = std::chrono::steady_clock::now();
  const double waited = training::add(exchange().take_account(), report_);
  if (step.phases == 0) report_.phases[Phase::kForward] += std::max(0.0, seconds(ended - mark_) - waited);
  for (std::size_t phase = 0; phase < step.phases; ++phase) report_.phases.seconds[phase] += step.phase_seconds[phase];
  mark_ = ended;
  if (report_.iterations++ == 0) report_.loss_first = step.loss;
  report_.loss_last = step.loss;
  if (__builtin_add_overflow(report_.samples, step.samples, &report_.samples))
    report_.samples = std::numeric_limits<std::int64_t>::max();
  report_.iteration_seconds.add(report_.phases.total() - before);
  ++stepped_;
  const Result<bool> last = process_->end_iteration(stepped_);
  if (!last.ok()) return settled(last);
  save_if_due(/*last=*/false);
  progress_->tell(report_, stepped_, stepped_, -1,
                  *last ? training::ProgressTeller::Importance::kLast : training::ProgressTeller::Importance::kUsual);
  return last;
}

}  // namespace paceline::library
