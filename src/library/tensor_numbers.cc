#include "library/tensor_numbers.h"

namespace paceline::library {

TensorNumbers::TensorNumbers(const wire::TensorTable& added) : places_(added.tensors.size()), layers_(added.layers.size()) {
  for (const bool frozen : {false, true}) {
    for (std::uint32_t tensor = 0; tensor < added.tensors.size(); ++tensor) {
      if (added.tensors[tensor].frozen != frozen) continue;
      places_[tensor] = static_cast<std::uint32_t>(tensors_.size());
      tensors_.push_back(tensor);
      if (!frozen) layers_[static_cast<std::size_t>(added.tensors[tensor].layer.index)] = Layer{0};
    }
  }
  std::int32_t next = 0;
  for (auto& layer : layers_) {
    if (layer) layer = Layer{next++};
  }
}

wire::TensorTable TensorNumbers::table(const wire::TensorTable& added) const {
  wire::TensorTable table;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer]) table.layers.push_back(added.layers[layer]);
  }
  const Layer frozen{static_cast<std::int32_t>(table.layers.size())};
  for (const std::uint32_t tensor : tensors_) {
    wire::TensorInfo& info = table.tensors.emplace_back(added.tensors[tensor]);
    info.layer = info.frozen ? frozen : *layers_[static_cast<std::size_t>(info.layer.index)];
  }
  if (!table.tensors.empty() && table.tensors.back().frozen) table.layers.push_back("frozen");
  return table;
}

}  // namespace paceline::library
