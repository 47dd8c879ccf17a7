// Of GradientExchange: what all workers hear of an iteration as a whole.
#include "exchange/gradient_exchange.h"

namespace paceline::exchange {

Result<bool> GradientExchange::wait_verdict(Iteration iteration, Duration limit, exchange::Verdict& verdict) {
  PACELINE_RETURN_IF_ERROR(check_process());
  if (!plan().options().update.verdict)
    return error(ErrorKind::kBadRequest, "this job tells no verdicts; give --optimizer mean --verdict");
  Lock lock = house_->lock();
  if (house_->failure().ok() && iteration != house_->gates().current() - 1) {
    return error(ErrorKind::kBadRequest, "worker {} waits for the verdict of iteration {} in iteration {}", house_->worker().value,
                 iteration, house_->gates().current());
  }
  const exchange::VerdictLedger& verdicts = *carrier_->verdicts();
  PACELINE_ASSIGN_OR_RETURN(const bool over,
                            house_->wait(
                                lock, limit, {Gatehouse::What::kVerdict}, [&] { return verdicts.of(iteration) != nullptr; },
                                [&] { return carrier_->awaited_verdict(iteration); }));
  if (over) verdict = *verdicts.of(iteration);
  return over;
}

}  // namespace paceline::exchange
