// How long each layer computes in one iteration, from what a training loop sees of it: the gates that its forward pass goes through
// and the gradients that its backward pass finishes. Pure: events with their times in. Whoever drives it owns it.
//
// Forward: a layer has the time from the opening of its gate to the next gate, or to the end of the pass. Backward: a gradient's
// layer has the time since the gradient before, or since the pass began; what follows the last gradient is that one's too. So the
// times add up to the passes, and however gradients of branches mix, a layer's are there after about the sum of the times from the
// last layer down to it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/quantity.h"

namespace paceline::scheduling {

class LayerTimes {
 public:
  explicit LayerTimes(std::size_t layers) : forward_(layers), backward_(layers) {}

  // The training thread stood at the gate of `layer` from `entered` to `opened`.
  void on_gate(Layer layer, TimePoint entered, TimePoint opened);
  // True: a forward pass was running, and its times are complete.
  bool on_forward_done(TimePoint now);

  void on_backward_begun(TimePoint now);
  void on_gradient(Layer layer, TimePoint now);
  // True: a backward pass with a gradient was running, and its times are complete.
  bool on_backward_done(TimePoint now);

  // Seconds, in forward order, since the last clear of that side.
  const std::vector<double>& forward() const { return forward_; }
  const std::vector<double>& backward() const { return backward_; }
  void clear_forward();
  void clear_backward();

 private:
  std::vector<double> forward_, backward_;
  std::optional<std::size_t> computing_;  // forward: the layer whose gate was the last
  TimePoint since_{};
  std::optional<TimePoint> backward_since_;
  std::optional<std::size_t> finished_;  // backward: the layer of the last gradient
};

}  // namespace paceline::scheduling
