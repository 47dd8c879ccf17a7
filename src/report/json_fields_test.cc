#include "report/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::report {
namespace {

using ::testing::HasSubstr;

const Json kLayer = {{"name", "conv1"}, {"size", 3}, {"rate", 0.5}, {"bias", true}, {"shape", {2, 3}}};

JsonFields fields() { return *JsonFields::of(kLayer, "t.json: layer 2", {"name", "size", "rate", "bias", "shape", "more"}); }

TEST(JsonFields, GiveWhatIsThere) {
  EXPECT_EQ(*fields().text("name"), "conv1");
  EXPECT_EQ(*fields().count("size"), 3);
  EXPECT_EQ(*fields().number("rate", 0, 1), 0.5);
  EXPECT_TRUE(*fields().truth("bias"));
  EXPECT_EQ(*fields().counts("shape", 2), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ((*fields().array("shape"))->size(), 2);
  EXPECT_TRUE(fields().has("size"));
  EXPECT_FALSE(fields().has("more"));
}

TEST(JsonFields, NameThePlaceAndTheKeyOfEveryFault) {
  const auto told = [](const auto& result) { return result.status().message(); };
  EXPECT_EQ(told(JsonFields::of(Json(7), "t.json", {"name"})), "t.json is 7 (a number); it must be an object");
  EXPECT_EQ(told(JsonFields::of({{"nam", 1}}, "t.json", {"name", "size"})),
            "t.json has an unknown key 'nam' (did you mean 'name'?); the keys are name, size");
  EXPECT_EQ(told(fields().text("more")), "t.json: layer 2: key 'more' is missing");
  EXPECT_EQ(told(fields().called("layer 2 'conv1'").text("size")),
            "layer 2 'conv1': key 'size' is 3 (a number); it must be a text");
  EXPECT_THAT(told(fields().truth("name")), HasSubstr("it must be true or false"));
  EXPECT_THAT(told(fields().array("name")), HasSubstr("it must be an array"));
  EXPECT_THAT(told(fields().number("name", 0)), HasSubstr("it must be a number"));
  EXPECT_THAT(told(fields().number("size", 4)), HasSubstr("key 'size' is 3; legal: 4 and more"));
  EXPECT_THAT(told(fields().number("size", 0, 2)), HasSubstr("legal: 0 to 2"));
  EXPECT_THAT(told(fields().count("rate")), HasSubstr("key 'rate' is 0.5; it must be a whole number"));
  EXPECT_THAT(told(fields().count("size", 4)), HasSubstr("legal: 4 to 9007199254740992"));
  EXPECT_THAT(told(fields().counts("shape", 3)), HasSubstr("has 2 numbers; it must have 3"));
}

}  // namespace
}  // namespace paceline::report
