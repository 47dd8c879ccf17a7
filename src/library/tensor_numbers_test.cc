#include "library/tensor_numbers.h"

#include <gtest/gtest.h>

namespace paceline::library {
namespace {

wire::TensorTable added(const std::vector<std::pair<std::int32_t, bool>>& tensors) {
  wire::TensorTable table;
  for (const auto& [layer, frozen] : tensors) {
    if (static_cast<std::size_t>(layer) == table.layers.size()) table.layers.push_back("layer " + std::to_string(layer));
    table.tensors.push_back(
        {.name = std::to_string(table.tensors.size()), .dtype = "float32", .shape = {2}, .layer = Layer{layer}, .frozen = frozen});
  }
  return table;
}

TEST(TensorNumbers, WithoutFrozenTensorsEverythingIsWhereItWasAdded) {
  const auto given = added({{0, false}, {0, false}, {1, false}});
  const TensorNumbers numbers(given);
  EXPECT_EQ(numbers.table(given), given);
  EXPECT_EQ(numbers.place(2), 2U);
  EXPECT_EQ(numbers.layer(1), Layer{1});
}

TEST(TensorNumbers, FrozenTensorsComeLastInALayerOfTheirOwnAndALayerOfThemHasNoGate) {
  const auto given = added({{0, true}, {0, false}, {1, true}, {1, true}, {2, false}});
  const TensorNumbers numbers(given);
  const wire::TensorTable table = numbers.table(given);
  EXPECT_TRUE(validate(table).ok()) << validate(table).message();
  ASSERT_EQ(table.tensors.size(), 5U);
  for (std::uint32_t tensor = 0; tensor < 5; ++tensor) {
    EXPECT_EQ(table.tensors[numbers.place(tensor)].name, std::to_string(tensor));
    EXPECT_EQ(numbers.tensor_at(numbers.place(tensor)), tensor);
  }
  EXPECT_EQ(table.layers, (std::vector<std::string>{"layer 0", "layer 2", "frozen"}));
  EXPECT_EQ(numbers.layer(0), Layer{0});
  EXPECT_EQ(numbers.layer(1), std::nullopt);
  EXPECT_EQ(numbers.layer(2), Layer{1});
  EXPECT_EQ(numbers.layers(), 3);
}

}  // namespace
}  // namespace paceline::library
