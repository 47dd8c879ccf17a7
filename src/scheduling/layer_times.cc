#include "scheduling/layer_times.h"

#include <algorithm>
#include <utility>

namespace paceline::scheduling {

void LayerTimes::on_gate(Layer layer, TimePoint entered, TimePoint opened) {
  if (computing_) forward_[*computing_] += seconds(entered - since_);
  computing_ = static_cast<std::size_t>(layer.index);
  since_ = opened;
}

bool LayerTimes::on_forward_done(TimePoint now) {
  const auto last = std::exchange(computing_, std::nullopt);
  if (!last) return false;
  forward_[*last] += seconds(now - since_);
  return true;
}

void LayerTimes::on_backward_begun(TimePoint now) {
  backward_since_ = now;
  finished_.reset();
}

void LayerTimes::on_gradient(Layer layer, TimePoint now) {
  if (!backward_since_) return;
  finished_ = static_cast<std::size_t>(layer.index);
  backward_[*finished_] += seconds(now - std::exchange(*backward_since_, now));
}

bool LayerTimes::on_backward_done(TimePoint now) {
  const auto since = std::exchange(backward_since_, std::nullopt);
  const auto last = std::exchange(finished_, std::nullopt);
  if (!since || !last) return false;
  backward_[*last] += seconds(now - *since);
  return true;
}

void LayerTimes::clear_forward() { std::ranges::fill(forward_, 0.0); }
void LayerTimes::clear_backward() { std::ranges::fill(backward_, 0.0); }

}  // namespace paceline::scheduling
