#include "job/wire_options.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::job {
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

TEST(WireOptions, DroppingHasAShare) {
  const auto wire = parse_wire("dropping:0.01");
  ASSERT_TRUE(wire.ok()) << wire.status().message();
  EXPECT_EQ(wire->share, 0.01);
  EXPECT_EQ(wire->text(), "dropping:0.01");
  EXPECT_TRUE(wire->drops());
  EXPECT_FALSE(wire->narrow());
  EXPECT_FALSE(parse_wire("dropping:1")->drops()) << "everything is sent";
  for (const char* text : {"dropping", "dropping:", "dropping:0", "dropping:1.1", "dropping:-1", "dropping:nan", "dropping:0.1x",
                           "dropping:0.1:2", "bfloat16:0.1"}) {
    EXPECT_THAT(parse_wire(text).status().message(), AllOf(HasSubstr(text), HasSubstr("dropping:SHARE"))) << text;
  }
  EXPECT_THAT(parse_wire("dropping").status().message(), HasSubstr("--wire 'dropping' is illegal (give a share: dropping:0.01);"));
  EXPECT_THAT(parse_wire("droping:0.1").status().message(), HasSubstr("(did you mean 'dropping'?)"));
  for (const double share : {0.0, -0.1, 1.5, std::nan("")})
    EXPECT_FALSE(validated({.kind = WireKind::kDropping, .share = share}).ok()) << share;
}

TEST(WireOptions, TheShareOfATensorIsRoundedAndAtLeastOneElement) {
  EXPECT_EQ(sent_elements(0.1, 1), 1U);
  EXPECT_EQ(sent_elements(0.1, 14), 1U);
  EXPECT_EQ(sent_elements(0.1, 15), 2U);
  EXPECT_EQ(sent_elements(0.1, 1000), 100U);
  EXPECT_EQ(sent_elements(1, 7), 7U);
}

TEST(WireOptions, AWarmUpBeginsWithAQuarterAndEndsWithTheShare) {
  EXPECT_EQ(parse_wire("dgc:0.001")->text(), "dgc:0.001");
  EXPECT_TRUE(parse_wire("dgc:1")->drops()) << "its momentum is the workers'";
  WireOptions wire{.kind = WireKind::kDgc, .share = 0.25 / 256, .warm_up = 4};
  const double shares[] = {0.25, 0.25 / 4, 0.25 / 16, 0.25 / 64, 0.25 / 256, 0.25 / 256};
  for (std::int64_t i = 1; i <= 6; ++i) EXPECT_DOUBLE_EQ(wire.share_at(i), shares[i - 1]) << i;
  wire.share = 0.5;
  EXPECT_EQ(wire.share_at(1), 0.5) << "more than a quarter is sent at once";
  wire = {.kind = WireKind::kDgc, .share = 0.01};
  EXPECT_EQ(wire.share_at(1), 0.01) << "no warm-up";
  EXPECT_FALSE(validated({.kind = WireKind::kDgc, .warm_up = -1}).ok());
  EXPECT_FALSE(validated({.kind = WireKind::kDropping, .share = 0.1, .warm_up = 3}).ok());
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
}  // namespace paceline::job
