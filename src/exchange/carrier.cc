#include "exchange/carrier.h"

#include <utility>

namespace paceline::exchange {

void MiniBatches::add(std::int64_t number) {
  ++added_;
  numbers_.push_back(number);
  if (reader_) reader_(number);
}

std::int64_t MiniBatches::take() {
  const std::int64_t number = numbers_.front();
  numbers_.pop_front();
  return number;
}

void MiniBatches::read_ahead(std::function<void(std::int64_t number)> reader) {
  reader_ = std::move(reader);
  if (!reader_) return;
  for (const std::int64_t number : numbers_) reader_(number);
}

Result<bool> Carrier::gather_state(Duration) {
  return error(ErrorKind::kBadRequest, "only servers send the optimizer's state; this job has none");
}

}  // namespace paceline::exchange
