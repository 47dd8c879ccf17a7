// Between tensors and layers as a program numbers them and their places in the job's table, where frozen tensors come last in a
// layer of their own. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/tensor_table.h"

namespace paceline::library {

class TensorNumbers {
 public:
  TensorNumbers() = default;
  // `added`: in the program's order, whose layers ascend one by one.
  explicit TensorNumbers(const wire::TensorTable& added);

  // The job's table of the same tensors.
  wire::TensorTable table(const wire::TensorTable& added) const;
  // Tensors and layers exist.
  std::uint32_t place(std::uint32_t tensor) const { return places_[tensor]; }
  std::uint32_t tensor_at(std::uint32_t place) const { return tensors_[place]; }
  // Nothing: all of the layer's tensors are frozen, and its gate is open for ever.
  std::optional<Layer> layer(std::int32_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  std::int32_t layers() const { return static_cast<std::int32_t>(layers_.size()); }

 private:
  std::vector<std::uint32_t> places_, tensors_;
  std::vector<std::optional<Layer>> layers_;
};

}  // namespace paceline::library
