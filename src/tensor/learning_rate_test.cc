#include "tensor/learning_rate.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::tensor {
namespace {

using Kind = Schedule::Kind;
using ::testing::HasSubstr;

double rate(std::string_view text, Iteration iteration) { return learning_rate(parse_schedule(text).value(), iteration); }

std::string message(std::string_view text) {
  const auto parsed = parse_schedule(text);
  EXPECT_FALSE(parsed.ok()) << text;
  EXPECT_EQ(parsed.status().kind(), ErrorKind::kBadRequest);
  return parsed.status().message();
}

TEST(LearningRate, IsConstantForABareNumber) {
  EXPECT_EQ(parse_schedule("0.1").value(), (Schedule{.kind = Kind::kConstant, .base = 0.1}));
  EXPECT_EQ(parse_schedule("constant:0.1").value(), parse_schedule("0.1").value());
  EXPECT_EQ(rate("1e-3", 1), 1e-3);
  EXPECT_EQ(rate("0", 5), 0);
  EXPECT_EQ(rate("0.1", 1'000'000'000'000), 0.1);
}

TEST(LearningRate, DropsAfterEveryNIterations) {
  EXPECT_EQ(rate("step:0.8,every=100,factor=0.5", 1), 0.8);
  EXPECT_EQ(rate("step:0.8,every=100,factor=0.5", 100), 0.8);
  EXPECT_EQ(rate("step:0.8,every=100,factor=0.5", 101), 0.4);
  EXPECT_EQ(rate("step:0.8,every=100,factor=0.5", 201), 0.2);
  EXPECT_DOUBLE_EQ(rate("step:1,every=1", 3), 0.01);
}

TEST(LearningRate, FollowsACosineToItsMinimumAndStays) {
  constexpr const char* kText = "cosine:1,total=100,minimum=0.2";
  EXPECT_EQ(rate(kText, 1), 1);
  EXPECT_DOUBLE_EQ(rate(kText, 51), 0.6);
  EXPECT_DOUBLE_EQ(rate(kText, 26), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_EQ(rate(kText, 101), 0.2);
  EXPECT_EQ(rate(kText, 5000), 0.2);
}

TEST(LearningRate, FollowsAPolynomialToItsEndAndStays) {
  constexpr const char* kText = "polynomial:0.1,total=1000,power=2,end=0.001";
  EXPECT_DOUBLE_EQ(rate(kText, 1), 0.1);
  EXPECT_DOUBLE_EQ(rate(kText, 501), 0.001 + 0.099 * 0.25);
  EXPECT_EQ(rate(kText, 1001), 0.001);
  EXPECT_EQ(rate(kText, 9999), 0.001);
  EXPECT_DOUBLE_EQ(rate("polynomial:1,total=4", 2), 0.75);
}

TEST(LearningRate, WarmsUpLinearlyBeforeEachKindStarts) {
  for (const char* text :
       {"1,warmup=4", "step:1,every=3,warmup=4", "cosine:1,total=20,warmup=4", "polynomial:1,total=20,warmup=4"}) {
    for (Iteration t = 1; t <= 4; ++t) EXPECT_EQ(rate(text, t), static_cast<double>(t) / 4) << text;
    EXPECT_EQ(rate(text, 5), 1) << text << ": the schedule's own clock starts after the warm-up";
  }
  EXPECT_EQ(rate("step:1,every=3,warmup=4", 7), 1);
  EXPECT_DOUBLE_EQ(rate("step:1,every=3,warmup=4", 8), 0.1);
  EXPECT_DOUBLE_EQ(rate("cosine:1,total=20,warmup=4", 13), 0.5);  // 8 of the 16 that remain
  EXPECT_NEAR(rate("cosine:1,total=20,warmup=4", 21), 0, 1e-16);
}

TEST(LearningRate, RunsAtExactlyItsBaseAtTheEndOfAnyWarmUp) {
  for (int warmup = 1; warmup < 300; ++warmup) {
    const Schedule schedule{.base = 0.1, .warmup = warmup};
    ASSERT_EQ(learning_rate(schedule, warmup), 0.1) << warmup;
  }
}

TEST(LearningRateDeathTest, AbortsOnIterationZero) { EXPECT_DEATH((void)rate("0.1", 0), "counted from 1"); }

TEST(ParseSchedule, ReadsEveryKeyInAnyOrder) {
  EXPECT_EQ(parse_schedule("step:0.1,factor=0.5,every=100,warmup=7").value(),
            (Schedule{.kind = Kind::kStep, .base = 0.1, .every = 100, .factor = 0.5, .warmup = 7}));
  EXPECT_EQ(parse_schedule("cosine:0.1,minimum=0.01,total=1000").value(),
            (Schedule{.kind = Kind::kCosine, .base = 0.1, .total = 1000, .minimum = 0.01}));
  EXPECT_EQ(parse_schedule("polynomial:0.1,total=1000,power=2,end=0.001,warmup=50").value(),
            (Schedule{.kind = Kind::kPolynomial, .base = 0.1, .total = 1000, .power = 2, .end = 0.001, .warmup = 50}));
  EXPECT_EQ(parse_schedule("step:0.1,every=5").value().factor, 0.1);
}

TEST(ParseSchedule, NamesTheWrongPartAndWhatIsLegal) {
  EXPECT_THAT(message("cosin:0.1,total=5"),
              HasSubstr("'cosin' is no schedule (did you mean 'cosine'?), legal are constant, step, cosine, "
                        "polynomial"));
  EXPECT_THAT(message("cosine:0.1,totl=5"),
              HasSubstr("'totl' is no key of cosine (did you mean 'total'?), legal are total, minimum, warmup"));
  EXPECT_THAT(message("0.1,every=5"), HasSubstr("'every' is no key of constant, legal are warmup"));
  EXPECT_THAT(message("step:0.1"), HasSubstr("step needs 'every='"));
  EXPECT_THAT(message("polynomial:0.1,power=2"), HasSubstr("polynomial needs 'total='"));
  EXPECT_THAT(message("step:0.1,every=5,every=6"), HasSubstr("'every' is given twice"));
  EXPECT_THAT(message("cosine"), HasSubstr("the rate is missing after 'cosine', as in cosine:0.1"));
  EXPECT_THAT(message("step:0.1,every"), HasSubstr("'every' is not of the form key=value"));
  EXPECT_THAT(message("cosine:0.1,total=10,warmup=10"), HasSubstr("total=10 is not above warmup=10, which it includes"));
}

TEST(ParseSchedule, RefusesWhatIsOutOfRange) {
  EXPECT_THAT(message("step:0.1,every=0"), HasSubstr("every=0 is below 1"));
  EXPECT_THAT(message("step:0.1,every=1.5"), HasSubstr("every=1.5 is not a whole number"));
  EXPECT_THAT(message("step:0.1,every=5,factor=0"), HasSubstr("factor=0 is not above 0"));
  EXPECT_THAT(message("step:0.1,every=5,factor=nan"), HasSubstr("factor=nan is not a finite number"));
  EXPECT_THAT(message("cosine:0.1,total=0"), HasSubstr("total=0 is not above 0"));
  EXPECT_THAT(message("cosine:0.1,total=5,minimum=0.2"), HasSubstr("minimum=0.2 is not within 0 and the rate 0.1"));
  EXPECT_THAT(message("polynomial:0.1,total=5,end=-1"), HasSubstr("end=-1 is not within"));
  EXPECT_THAT(message("polynomial:0.1,total=5,power=-2"), HasSubstr("power=-2 is not above 0"));
  EXPECT_THAT(message("0.1,warmup=-1"), HasSubstr("warmup=-1 is below 0"));
  EXPECT_THAT(message("0.1,warmup=99999999999999999999"), HasSubstr("not a whole number"));
}

TEST(ParseSchedule, RefusesWhatIsNoRate) {
  for (const char* text : {"", "-0.1", "nan", "inf", "1e999", "0.1x", " 0.1", "0,1", "step:", ":0.1", "0.1,", "step:,every=5",
                           "0.1,=5", "0.1,warmup="}) {
    EXPECT_THAT(message(text), HasSubstr("learning rate '")) << text;
  }
}

TEST(ToText, ParsesBackToTheSameSchedule) {
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> share(0, 1);
    Schedule schedule{.kind = static_cast<Kind>(random() % 4), .base = share(random)};
    if (random() % 2 == 0) schedule.warmup = static_cast<std::int64_t>(random() % 100);
    if (schedule.kind == Kind::kStep) {
      schedule.every = static_cast<std::int64_t>(1 + random() % 1000);
      schedule.factor = 1e-9 + share(random);
    }
    if (schedule.kind == Kind::kCosine) schedule.minimum = schedule.base * share(random);
    if (schedule.kind == Kind::kPolynomial) {
      schedule.end = schedule.base * share(random);
      schedule.power = 1e-9 + 4 * share(random);
    }
    if (schedule.kind == Kind::kCosine || schedule.kind == Kind::kPolynomial) {
      schedule.total = schedule.warmup + 1 + static_cast<std::int64_t>(random() % 10'000);
    }
    const auto parsed = parse_schedule(to_text(schedule));
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << ": " << parsed.status().message();
    ASSERT_EQ(*parsed, schedule) << "seed " << seed << ": " << to_text(schedule);
  }
}

}  // namespace
}  // namespace paceline::tensor
