#include "exchange/told_rates.h"

#include <cmath>
#include <utility>

namespace paceline::exchange {

Status check_rates(const job::Plan& plan, std::span<const GroupRates> rates) {
  if (rates.size() != plan.groups())
    return error(ErrorKind::kBadRequest, "rates of {} parameter groups; the job has {}", rates.size(), plan.groups());
  for (std::size_t group = 0; group < rates.size(); ++group) {
    const auto& [rate, decay] = rates[group];
    if (std::isfinite(rate) && std::isfinite(decay) && decay >= 0) continue;
    return error(ErrorKind::kBadRequest,
                 "parameter group {} has the learning rate {} and the weight decay {}; legal: finite, the decay at least 0", group,
                 rate, decay);
  }
  return {};
}

ToldRates::ToldRates(std::shared_ptr<const job::Plan> plan) : plan_(std::move(plan)) {
  if (plan_->options().update.told_rates) told_.resize(static_cast<std::size_t>(plan_->options().workers));
}

Result<std::span<std::byte>> ToldRates::place(Rank worker, Iteration iteration, std::uint64_t bytes) {
  if (worker.value < 0 || static_cast<std::size_t>(worker.value) >= told_.size() || bytes != plan_->groups() * sizeof(GroupRates)) {
    return error(ErrorKind::kBadRequest, "worker {} told its rates of iteration {} in {} bytes; this job awaits {}", worker.value,
                 iteration, bytes, told_.empty() ? 0 : plan_->groups() * sizeof(GroupRates));
  }
  Told& told = at(worker, iteration);
  told.iteration = -1;
  told.rates.resize(plan_->groups());
  return std::as_writable_bytes(std::span(told.rates));
}

Status ToldRates::on_rates(Rank worker, Iteration iteration) {
  at(worker, iteration).iteration = iteration;
  const auto prefixed = [&](const Status& status) {
    return error(ErrorKind::kBadRequest, "worker {}, iteration {}: {}", worker.value, iteration, status.message());
  };
  if (const Status legal = check_rates(*plan_, of(worker, iteration)); !legal.ok()) return prefixed(legal);
  return plan_->uneven() ? Status() : compare(worker, iteration);
}

std::span<const GroupRates> ToldRates::of(Rank worker, Iteration iteration) const {
  if (told_.empty()) return {};
  const Told& told = told_[static_cast<std::size_t>(worker.value)][static_cast<std::size_t>(iteration & 1)];
  return told.iteration == iteration ? std::span<const GroupRates>(told.rates) : std::span<const GroupRates>();
}

Status ToldRates::compare(Rank worker, Iteration iteration) const {
  const auto mine = of(worker, iteration);
  for (Rank other{0}; other.value < plan_->options().workers; ++other.value) {
    const auto theirs = of(other, iteration);
    for (std::size_t group = 0; group < theirs.size(); ++group) {
      if (mine[group] == theirs[group]) continue;
      return error(
          ErrorKind::kBadRequest,
          "worker {} has the learning rate {} and the weight decay {} for parameter group {} in iteration {}, worker {} has "
          "{} and {}; in bsp all workers set the same",
          worker.value, mine[group].learning_rate, mine[group].weight_decay, group, iteration, other.value,
          theirs[group].learning_rate, theirs[group].weight_decay);
    }
  }
  return {};
}

}  // namespace paceline::exchange
