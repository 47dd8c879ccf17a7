// Of GradientExchange: at which rates an iteration is applied, where workers say so, and the order in which a worker needs layers.
#include "exchange/gradient_exchange.h"
#include "scheduling/urgency.h"

namespace paceline::exchange {

Status GradientExchange::tell_rates(Iteration iteration, std::span<const GroupRates> rates) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (!plan().options().update.told_rates)
    return error(ErrorKind::kBadRequest, "the rates of this job are not told by workers; give --told-rates");
  PACELINE_RETURN_IF_ERROR(check_rates(plan(), rates));
  const Lock lock = house_->lock();
  PACELINE_RETURN_IF_ERROR(house_->failure());
  if (iteration != house_->gates().current() || rates_told_ == iteration) {
    return error(ErrorKind::kBadRequest, "worker {} tells the rates of iteration {}{} in iteration {}", house_->worker().value,
                 iteration, rates_told_ == iteration ? " again" : "", house_->gates().current());
  }
  rates_told_ = iteration;
  carrier_->tell_rates(iteration, rates);
  return {};
}

Status GradientExchange::set_order(std::span<const std::int32_t> layers) {
  PACELINE_RETURN_IF_ERROR(check_process());
  PACELINE_RETURN_IF_ERROR(scheduling::Urgency(plan().layers()).set(layers));
  {
    const Lock lock = house_->lock();
    PACELINE_RETURN_IF_ERROR(house_->failure());
  }
  carrier_->set_order(layers);
  return {};
}

// Locked.
Status GradientExchange::check_rates_told() const {
  const Iteration current = house_->gates().current();
  if (!plan().options().update.told_rates || rates_told_ == current || !house_->failure().ok()) return {};
  return error(ErrorKind::kBadRequest, "a gradient of iteration {} came before worker {} told at which rates it is applied",
               current, house_->worker().value);
}

}  // namespace paceline::exchange
