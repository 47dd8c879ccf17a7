#include "paramserver/core/wire_options.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::paramserver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WireOptions, EveryNameComesBack) {
  for (const char* name : {"float32", "bfloat16", "float16"}) {
    const auto wire = parse_wire(name);
    ASSERT_TRUE(wire.ok()) << name;
    EXPECT_EQ(wire->text(), name);
    EXPECT_EQ(tensor::name_of(wire->type()), std::string(name));
    EXPECT_EQ(wire->narrow(), wire->element_bytes() == 2);
  }
}

TEST(WireOptions, AnotherNameIsRefusedWithTheLegalOnes) {
  EXPECT_THAT(parse_wire("bfloat").status().message(),
              AllOf(HasSubstr("--wire 'bfloat'"), HasSubstr("did you mean 'bfloat16'?"), HasSubstr("float32, bfloat16, float16")));
  for (const char* name : {"", "float64", "int32", "bfloat16:0.5", "Float16"}) EXPECT_FALSE(parse_wire(name).ok()) << name;
}

TEST(WireOptions, ALossScaleIsAPowerOfTwoForANarrowCodec) {
  for (const double scale : {1.0, 2.0, 1024.0, kLargestLossScale})
    EXPECT_TRUE(validated({.kind = WireKind::kFloat16, .loss_scale = scale}).ok()) << scale;
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double scale : {0.0, 0.5, -2.0, 3.0, 1000.0, 2 * kLargestLossScale, nan, infinity}) {
    EXPECT_THAT(validated({.kind = WireKind::kFloat16, .loss_scale = scale}).status().message(),
                AllOf(HasSubstr("--loss-scale"), HasSubstr("a power of two from 1 to 16777216")))
        << scale;
  }
  EXPECT_THAT(validated({.loss_scale = 2}).status().message(), AllOf(HasSubstr("--loss-scale 2"), HasSubstr("--wire float16")));
}

}  // namespace
}  // namespace paceline::paramserver
