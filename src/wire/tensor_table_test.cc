#include "wire/tensor_table.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorTable small_table() {
  TensorTable table;
  table.tensors.push_back({.name = "conv.weight", .dtype = "float32", .shape = {2, 3}, .layer = {0}});
  table.tensors.push_back({.name = "conv.bias", .dtype = "float32", .shape = {2}, .layer = {0}});
  table.tensors.push_back({.name = "scale", .dtype = "float32", .shape = {}, .layer = {1}});
  table.tensors.push_back({.name = "none", .dtype = "float32", .shape = {5, 0}, .layer = {1}});
  table.layers = {"conv", "end"};
  return table;
}

std::string refusal(void (*change)(TensorTable&)) {
  TensorTable table = small_table();
  change(table);
  const Status status = validate(table);
  if (status.ok()) return "";
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  return status.message();
}

TEST(TensorTable, TensorsStandOneBehindTheOther) {
  const TensorTable table = small_table();
  EXPECT_TRUE(validate(table).ok());
  EXPECT_THAT(table.offsets(), ElementsAre(0, 6, 8, 9, 9));
  EXPECT_EQ(table.elements(), 9);
  EXPECT_EQ(table.tensors[2].elements(), 1) << "a tensor without dimensions is one number";
}

TEST(TensorTable, WhatCannotBeTrainedIsRefused) {
  EXPECT_EQ(refusal([](TensorTable&) {}), "");
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors.clear(); }), HasSubstr("no parameters"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[1].dtype = "float16"; }), HasSubstr("\"conv.bias\" is float16"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].layer = {1}; }),
              HasSubstr("\"conv.bias\" stands in layer 0 after layer 1"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[2].layer = t.tensors[3].layer = {2}; }), HasSubstr("layer 2 after layer 0"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].layer = {-1}; }), HasSubstr("layer -1"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.layers.pop_back(); }), HasSubstr("\"scale\""));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[1].name = "conv.weight"; }), HasSubstr("\"conv.weight\" stands twice"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].shape = {-2, -3}; }), HasSubstr("illegal shape [-2, -3]"));
}

TEST(TensorTable, FrozenTensorsStandLastInLayersOfTheirOwnAndTravel) {
  EXPECT_EQ(refusal([](TensorTable& t) { t.tensors[2].frozen = t.tensors[3].frozen = true; }), "");
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[3].frozen = true; }), HasSubstr("\"none\" stands in layer 1 with others"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].frozen = t.tensors[1].frozen = true; }),
              HasSubstr("\"scale\" stands behind frozen ones"));
  EXPECT_THAT(refusal([](TensorTable& t) {
                for (TensorInfo& tensor : t.tensors) tensor.frozen = true;
              }),
              HasSubstr("no parameters"));
  TensorTable table = small_table(), other = table;
  table.tensors[2].frozen = table.tensors[3].frozen = true;
  Writer writer;
  encode(table, writer);
  const auto bytes = writer.take();
  Reader reader(bytes);
  EXPECT_EQ(decode_tensor_table(reader), table);
  EXPECT_EQ(first_difference(table, other),
            "tensor 2: \"scale\" float32 [] in layer 1, group 0, frozen against \"scale\" float32 [] in layer 1, group 0");
}

TEST(TensorTable, ShapesThatOverflowAreRefused) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].shape = {kHuge}; }), HasSubstr("illegal shape"));
  EXPECT_THAT(refusal([](TensorTable& t) {
                t.tensors[0].shape = {std::int64_t{1} << 32, std::int64_t{1} << 32};
              }),
              HasSubstr("illegal shape"));
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].shape = {std::int64_t{1} << 40}; }), HasSubstr("more than"));
  // A dimension of zero comes too late for the product before it: elements() multiplies from the left.
  EXPECT_THAT(refusal([](TensorTable& t) { t.tensors[0].shape = {kHuge, 0}; }), HasSubstr("illegal shape"));
}

TEST(TensorTable, TheFirstDifferenceIsNamed) {
  const TensorTable a = small_table();
  EXPECT_EQ(first_difference(a, a), std::nullopt);
  TensorTable b = a;
  b.tensors[1].shape = {3};
  EXPECT_EQ(first_difference(a, b),
            "tensor 1: \"conv.bias\" float32 [2] in layer 0, group 0 against \"conv.bias\" float32 [3] in layer 0, group 0");
  b = a;
  b.tensors.pop_back();
  EXPECT_EQ(first_difference(a, b), "the number of tensors: 4 against 3");
  b = a;
  b.layers[1] = "last";
  EXPECT_EQ(first_difference(a, b), "layer 1: \"end\" against \"last\"");
  b.layers = {"conv"};
  EXPECT_EQ(first_difference(a, b), "the number of layers: 2 against 1");
}

}  // namespace
}  // namespace paceline::wire
