// Of GradientExchange: which mini-batches this worker computes, where they are handed out.
#include <utility>

#include "exchange/gradient_exchange.h"

namespace paceline::exchange {

Result<std::optional<std::int64_t>> GradientExchange::next_mini_batch(Duration limit) {
  PACELINE_RETURN_IF_ERROR(check_process());
  MiniBatches* const numbers = carrier_->mini_batches();
  if (numbers == nullptr) return error(ErrorKind::kBadRequest, "mini-batches are not handed out in this job");
  Lock lock = house_->lock();
  const TimePoint entered = house_->loop().now();
  PACELINE_ASSIGN_OR_RETURN(const bool over, house_->wait(
                                                 lock, limit, {Gatehouse::What::kMiniBatch}, [&] { return !numbers->empty(); },
                                                 [&] {
                                                   return fmt::format("server {} to hand out a mini-batch for iteration {}",
                                                                      plan().pacing_server().value, house_->gates().current());
                                                 }));
  const TimePoint now = house_->loop().now();
  tell(wire::during(entered, now, {.what = wire::Happening::kWaitMiniBatch}));
  if (!over) return std::optional<std::int64_t>();
  return std::optional(numbers->take());
}

void GradientExchange::read_ahead(std::function<void(std::int64_t)> reader) {
  MiniBatches* const numbers = carrier_->mini_batches();
  if (numbers == nullptr || !check_process().ok()) return;
  const Lock lock = house_->lock();
  numbers->read_ahead(std::move(reader));
}

}  // namespace paceline::exchange
