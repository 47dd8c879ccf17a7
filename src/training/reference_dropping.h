// Gradient dropping as the reference does it: element after element. Shares no code with tensor/ and paramserver/ but the options.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/wire_options.h"

namespace paceline::training {

// What one worker keeps back of one model.
class ReferenceDropping {
 public:
  // `offsets`: where each tensor begins in the arena, and the arena's end.
  ReferenceDropping(const job::WireOptions& wire, std::vector<std::int64_t> offsets);

  // What a worker of so many multiplies its gradients by, of which `used` tells by tensor whether there is one.
  float clip_coefficient(std::size_t workers, std::span<const char> used, std::span<const float> gradients) const;
  // The gradient of `tensor` in the arena becomes what is sent of it.
  void drop(std::size_t tensor, Iteration iteration, float coefficient, std::span<float> gradients);

 private:
  job::WireOptions wire_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> kept_, velocity_;
};

}  // namespace paceline::training
