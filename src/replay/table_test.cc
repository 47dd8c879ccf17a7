#include "replay/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::replay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) { return parse_table(text, "t.json").status().message(); }

// A table of one layer with this for its text.
std::string layer(const std::string& text) {
  return R"({"layers":[{"name":"a","parameters":1,"forward_s":0,"backward_s":0},)" + text + "]}";
}

TEST(LayerTable, IsReadInForwardOrderAndWrittenSo) {
  const auto table = parse_table(
      R"({"model":"m","source":"s","parameters":30,"compute_s":1,
          "layers":[{"name":"a","parameters":10,"forward_s":0.5,"backward_s":1e-3},{"backward_s":2,"forward_s":0,"parameters":2e1,"name":"b"}]})",
      "t.json");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->layers, (std::vector<LayerRow>{{"a", 10, 0.5, 0.001}, {"b", 20, 0, 2}}));
  const auto again = parse_table(to_text(*table, {{"model", "m"}, {"source", "this \"machine\""}}), "again");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, *table);
}

TEST(LayerTable, EveryFaultIsNamedByLayerAndKey) {
  EXPECT_THAT(refusal("[]"), AllOf(HasSubstr("t.json"), HasSubstr("object")));
  EXPECT_THAT(refusal("{}"), HasSubstr("key 'layers' is missing"));
  EXPECT_THAT(refusal(R"({"layers":[]})"), HasSubstr("at least one layer"));
  EXPECT_THAT(refusal(R"({"layers":3})"), HasSubstr("key 'layers' is 3 (a number)"));
  EXPECT_THAT(refusal(R"({"layer":[]})"), HasSubstr("did you mean 'layers'?"));
  EXPECT_THAT(refusal(layer("7")), AllOf(HasSubstr("layer 2"), HasSubstr("must be an object")));
  EXPECT_THAT(refusal(layer(R"({"parameters":1,"forward_s":0,"backward_s":0})")), HasSubstr("layer 2: key 'name' is missing"));
  EXPECT_THAT(refusal(layer(R"({"name":"","parameters":1,"forward_s":0,"backward_s":0})")), HasSubstr("key 'name' is \"\""));
  const auto with = [](const std::string& key, const std::string& value) {
    std::string text = R"({"name":"conv2")";
    for (const std::string name : {"parameters", "forward_s", "backward_s"}) {
      if (name != key || !value.empty()) text += ",\"" + name + "\":" + (name == key ? value : "1");
    }
    return refusal(layer(text + "}"));
  };
  for (const std::string key : {"parameters", "forward_s", "backward_s"}) {
    const auto named = AllOf(HasSubstr("t.json: layer 2 'conv2'"), HasSubstr("key '" + key + "'"));
    EXPECT_THAT(with(key, ""), AllOf(named, HasSubstr("missing")));
    EXPECT_THAT(with(key, "-1"), AllOf(named, HasSubstr("-1"), HasSubstr("legal: 0 to")));
    EXPECT_THAT(with(key, "\"1\""), AllOf(named, HasSubstr("must be a number")));
    EXPECT_THAT(with(key, "null"), named);
    for (const auto* no_number : {"NaN", "Infinity", "1e999"})
      EXPECT_THAT(with(key, no_number),
                  AllOf(HasSubstr("t.json: line 1"), HasSubstr("not"), HasSubstr("entry 2, key '" + key + "'")));
  }
  EXPECT_THAT(with("parameters", "1.5"), HasSubstr("whole number"));
  EXPECT_THAT(with("forward_s", "1e6"), HasSubstr("legal: 0 to 3600"));
  EXPECT_THAT(refusal(layer(R"({"name":"b","parameters":1,"forward_s":0,"backwards":0})")),
              HasSubstr("did you mean 'backward_s'?"));
  EXPECT_THAT(refusal(layer(R"({"name":"b","name":"c"})")), HasSubstr("twice"));
}

TEST(LayerTable, AScaleRoundsAndLeavesEachLayerAtLeastOneParameter) {
  const LayerTable table = scaled({{{"a", 0, 1, 2}, {"b", 4, 0, 0}, {"c", 25, 0, 0}, {"d", 1'000'000, 0, 0}}}, 10);
  EXPECT_EQ(table.layers, (std::vector<LayerRow>{{"a", 1, 1, 2}, {"b", 1, 0, 0}, {"c", 3, 0, 0}, {"d", 100'000, 0, 0}}));
}

TEST(LayerTable, GivesAValidTensorForEachLayerAlsoWhenNamesRepeat) {
  const wire::TensorTable tensors = tensors_of({{{"a", 10, 0, 0}, {"a", 5, 0, 0}, {"a (2)", 1, 0, 0}}});
  EXPECT_TRUE(validate(tensors).ok()) << validate(tensors).message();
  EXPECT_EQ(tensors.elements(), 16);
}

TEST(LayerTable, ATableThatDoesNotFitIntoTheMachineIsRefusedWithAScaleThatDoes) {
  const LayerTable table{{{"a", 1'000'000'000, 0, 0}}};
  EXPECT_TRUE(check_fits(table, Bytes{12'000'000'000}).ok());
  EXPECT_THAT(check_fits(table, Bytes{4'000'000'000}).message(), AllOf(HasSubstr("12.0 GB"), HasSubstr("--scale 4")));
}

}  // namespace
}  // namespace paceline::replay
