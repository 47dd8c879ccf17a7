#include "tensor/optimizer.h"

#include <array>

#include <gmock/gmock.h>

#include "tensor/testing.h"

namespace paceline::tensor {
namespace {

using Kind = OptimizerKind;
using testing::all_same;
using ::testing::HasSubstr;
using testing::on_every_target;

constexpr std::array<Kind, 7> kKinds = {Kind::kSgd,   Kind::kMomentum, Kind::kNesterov, Kind::kAdam,
                                        Kind::kAdamW, Kind::kAdagrad,  Kind::kMean};

// The header's formulas, one element after the other; each line one rounding.
void twin(const OptimizerOptions& options, const StepContext& context, std::span<float> parameters, std::span<const float> gradient,
          std::span<float> state) {
  const Coefficients c = coefficients(options, context);
  const std::size_t n = parameters.size();
  const bool decays = options.weight_decay != 0;
  for (std::size_t i = 0; i < n; ++i) {
    float p = parameters[i], g = gradient[i];
    if (options.kind == Kind::kMean) {
      parameters[i] = g;
      continue;
    }
    if (decays && options.kind != Kind::kAdamW) {
      const float product = c.decay * p;
      g = g + product;
    }
    if (options.kind == Kind::kSgd) {
      const float change = c.rate * g;
      p = p - change;
    } else if (options.kind == Kind::kMomentum || options.kind == Kind::kNesterov) {
      const float kept = c.momentum * state[i];
      const float m = kept + g;
      state[i] = m;
      const float ahead = c.momentum * m;
      const float direction = options.kind == Kind::kNesterov ? g + ahead : m;
      const float change = c.rate * direction;
      p = p - change;
    } else if (options.kind == Kind::kAdagrad) {
      const float square = g * g;
      const float m = state[i] + square;
      state[i] = m;
      const float root = std::sqrt(m);
      const float denominator = root + c.epsilon;
      const float numerator = c.rate * g;
      const float change = numerator / denominator;
      p = p - change;
    } else {
      if (decays && options.kind == Kind::kAdamW) p = p * c.keep;
      const float kept_m = c.beta1 * state[i], new_m = c.one_minus_beta1 * g;
      const float m = kept_m + new_m;
      const float scaled = c.one_minus_beta2 * g;
      const float kept_v = c.beta2 * state[n + i], new_v = scaled * g;
      const float v = kept_v + new_v;
      state[i] = m;
      state[n + i] = v;
      const float root = std::sqrt(v);
      const float corrected = root / c.correction2_sqrt;
      const float denominator = corrected + c.epsilon;
      const float numerator = c.step_size * m;
      const float change = numerator / denominator;
      p = p - change;
    }
    parameters[i] = p;
  }
}

std::size_t planes_of(const OptimizerOptions& options) { return static_cast<std::size_t>(state_floats_per_parameter(options)); }

TEST(Step, IsBitEqualToTheScalarFormulasAtEveryLengthAndOffset) {
  std::mt19937_64 random(21);
  const auto parameters = testing::ordinary_floats(96, random), gradient = testing::ugly_floats(96, random);
  auto state = testing::ordinary_floats(2 * 67 + 16, random);
  for (float& value : state) value = std::fabs(value);
  on_every_target([&] {
    for (const Kind kind : kKinds) {
      for (const double decay : {0.0, 0.01}) {
        const OptimizerOptions options{.kind = kind, .weight_decay = decay};
        const StepContext context{.learning_rate = 0.05, .step = 3};
        for (std::size_t offset = 0; offset < 16; ++offset) {
          for (std::size_t n = 0; n <= 67; ++n) {
            auto found = parameters, expected = parameters, found_state = state, expected_state = state;
            const std::size_t floats = n * planes_of(options);
            const auto g = std::span(gradient).subspan(7, n);
            step(options, context, std::span(found).subspan(offset, n), g, std::span(found_state).subspan(offset, floats));
            twin(options, context, std::span(expected).subspan(offset, n), g, std::span(expected_state).subspan(offset, floats));
            ASSERT_TRUE(all_same(found, expected)) << name_of(kind) << ", " << n << " at " << offset;
            ASSERT_TRUE(all_same(found_state, expected_state)) << name_of(kind) << ", " << n << " at " << offset;
          }
        }
      }
    }
  });
}

TEST(Step, StaysBitEqualOverManyStepsWithRandomOptions) {
  on_every_target([] {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::mt19937_64 random(seed);
      std::uniform_real_distribution<double> share(0.01, 0.99);
      const OptimizerOptions options{.kind = kKinds[random() % kKinds.size()],
                                     .momentum = share(random),
                                     .beta1 = share(random),
                                     .beta2 = share(random),
                                     .epsilon = std::pow(10.0, -1 - 10 * share(random)),
                                     .weight_decay = random() % 2 == 0 ? 0 : share(random)};
      ASSERT_TRUE(validated(options).ok());
      const std::size_t n = 1 + random() % 150;
      auto found = testing::ordinary_floats(n, random), expected = found;
      std::vector<float> found_state(n * planes_of(options)), expected_state = found_state;
      for (std::int64_t t = 1; t <= 20; ++t) {
        const auto gradient = t == 15 ? testing::ugly_floats(n, random) : testing::ordinary_floats(n, random);
        const StepContext context{.learning_rate = share(random), .step = t};
        step(options, context, found, gradient, found_state);
        twin(options, context, expected, gradient, expected_state);
      }
      ASSERT_TRUE(all_same(found, expected)) << "seed " << seed;
      ASSERT_TRUE(all_same(found_state, expected_state)) << "seed " << seed;
    }
  });
}

TEST(Step, DoesNotDependOnHowATensorIsCut) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const OptimizerOptions options{.kind = kKinds[random() % 6], .weight_decay = 0.001};
    const std::size_t n = 1 + random() % 300, cut = random() % (n + 1), planes = planes_of(options);
    auto whole = testing::ordinary_floats(n, random), parts = whole;
    std::vector<float> state(n * planes), left(cut * planes), right((n - cut) * planes);
    for (std::int64_t t = 1; t <= 4; ++t) {
      const auto gradient = testing::ordinary_floats(n, random);
      const StepContext context{.learning_rate = 0.1, .step = t};
      step(options, context, whole, gradient, state);
      step(options, context, std::span(parts).first(cut), std::span(gradient).first(cut), left);
      step(options, context, std::span(parts).subspan(cut), std::span(gradient).subspan(cut), right);
    }
    ASSERT_TRUE(all_same(parts, whole)) << "seed " << seed;
  }
}

float one_step(const OptimizerOptions& options, float p, float g, std::vector<float>& state, StepContext context) {
  state.resize(planes_of(options));
  step(options, context, std::span(&p, 1), std::span(&g, 1), state);
  return p;
}

TEST(Step, DescendsByHandComputedAmounts) {
  std::vector<float> none, m, n;
  EXPECT_EQ(one_step({.kind = Kind::kSgd}, 1, 2, none, {0.25, 1}), 0.5f);
  EXPECT_EQ(one_step({.kind = Kind::kSgd, .weight_decay = 0.5}, 1, 2, none, {0.25, 1}), 1 - 0.25f * 2.5f);
  EXPECT_EQ(one_step({.kind = Kind::kMomentum, .momentum = 0.5}, 1, 2, m, {0.25, 1}), 0.5f) << "the first buffer is the gradient";
  EXPECT_EQ(m[0], 2);
  EXPECT_EQ(one_step({.kind = Kind::kMomentum, .momentum = 0.5}, 1, 2, m, {0.25, 2}), 0.25f);
  EXPECT_EQ(one_step({.kind = Kind::kNesterov, .momentum = 0.5}, 1, 2, n, {0.25, 1}), 0.25f);
}

TEST(Step, MovesByAboutTheLearningRateInAdamsFirstStepWhateverTheGradient) {
  for (const float g : {1e-3f, 1.0f, -50.0f}) {
    std::vector<float> state;
    EXPECT_NEAR(one_step({.kind = Kind::kAdam}, 1, g, state, {0.01, 1}), g > 0 ? 0.99f : 1.01f, 1e-6f);
  }
}

TEST(Step, OfAdagradShrinksAsItGoesWhateverTheScaleOfTheGradient) {
  for (const float g : {1.0f, 64.0f}) {
    std::vector<float> state;
    float p = one_step({.kind = Kind::kAdagrad, .epsilon = 1e-20}, 1, g, state, {0.5, 1});
    EXPECT_EQ(p, 0.5f);
    p = one_step({.kind = Kind::kAdagrad, .epsilon = 1e-20}, p, g, state, {0.5, 2});
    EXPECT_NEAR(p, 0.5 - 0.5 / std::sqrt(2.0), 1e-6);
    EXPECT_EQ(state[0], 2 * g * g);
  }
}

TEST(Step, DecaysApartFromTheGradientInAdamW) {
  std::vector<float> adam, adamw;
  // Without a gradient AdamW only shrinks; Adam takes the decay for a gradient and moves by a whole learning rate.
  EXPECT_EQ(one_step({.kind = Kind::kAdamW, .weight_decay = 0.5}, 2, 0, adamw, {0.25, 1}), 2 * 0.875f);
  EXPECT_NEAR(one_step({.kind = Kind::kAdam, .weight_decay = 0.5}, 2, 0, adam, {0.25, 1}), 1.75f, 1e-6f);
}

TEST(Step, AcceptsNoParametersAndANegativeLearningRate) {
  step({.kind = Kind::kAdam}, {0.1, 1}, {}, {}, {});
  std::vector<float> none;
  EXPECT_EQ(one_step({}, 5, 1, none, {-1, 1}), 6);
}

TEST(Coefficients, AreComputedInFloat64AndRoundedOnce) {
  const Coefficients c = coefficients({.kind = Kind::kAdam, .weight_decay = 0.01}, {.learning_rate = 0.1, .step = 10});
  EXPECT_EQ(c.rate, 0.1f);
  EXPECT_EQ(c.one_minus_beta2, static_cast<float>(1 - 0.999)) << "not 1 - 0.999f";
  EXPECT_EQ(c.keep, static_cast<float>(1 - 0.1 * 0.01));
  EXPECT_FLOAT_EQ(c.step_size, static_cast<float>(0.1 / (1 - std::pow(0.9, 10))));
  EXPECT_FLOAT_EQ(c.correction2_sqrt, static_cast<float>(std::sqrt(1 - std::pow(0.999, 10))));
}

TEST(Coefficients, ForgetTheBiasAfterManySteps) {
  const Coefficients c = coefficients({.kind = Kind::kAdam}, {.learning_rate = 0.1, .step = 1'000'000'000'000});
  EXPECT_EQ(c.step_size, 0.1f);
  EXPECT_EQ(c.correction2_sqrt, 1);
}

TEST(StepDeathTest, AbortsOnSizesThatDisagree) {
  std::vector<float> three(3), two(2);
  EXPECT_DEATH(step({}, {0.1, 1}, three, two, {}), "a gradient of 2 elements for 3");
  EXPECT_DEATH(step({.kind = Kind::kAdam}, {0.1, 1}, three, three, three), "a state of 3 floats for 3 parameters of adam");
  EXPECT_DEATH(step({}, {0.1, 0}, three, three, {}), "counted from 1, not 0");
}

TEST(OptimizerOptions, NeedStateByTheirKind) {
  constexpr std::array<int, kKinds.size()> floats = {0, 1, 1, 2, 2, 1, 0};
  for (std::size_t i = 0; i < kKinds.size(); ++i) EXPECT_EQ(state_floats_per_parameter({.kind = kKinds[i]}), floats[i]);
}

TEST(OptimizerOptions, AreRefusedOutOfRangeWithNameValueAndRange) {
  const auto message = [](const OptimizerOptions& options) {
    const auto result = validated(options);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().kind(), ErrorKind::kBadRequest);
    return result.status().message();
  };
  EXPECT_EQ(message({.momentum = 1}), "--momentum 1 is out of range; legal is at least 0 and less than 1");
  EXPECT_THAT(message({.momentum = -0.1}), HasSubstr("--momentum -0.1"));
  EXPECT_THAT(message({.momentum = NAN}), HasSubstr("--momentum nan"));
  EXPECT_THAT(message({.kind = Kind::kNesterov, .momentum = 0}), HasSubstr("above 0 and less than 1 for nesterov"));
  EXPECT_THAT(message({.beta1 = 1}), HasSubstr("--beta1 1"));
  EXPECT_THAT(message({.beta2 = -1}), HasSubstr("--beta2 -1"));
  EXPECT_THAT(message({.epsilon = 0}), HasSubstr("--epsilon 0 is out of range; legal is above 0"));
  EXPECT_THAT(message({.epsilon = 1e-60}), HasSubstr("--epsilon 1e-60"));
  EXPECT_THAT(message({.weight_decay = -1}), HasSubstr("--weight-decay -1"));
  EXPECT_THAT(message({.weight_decay = INFINITY}), HasSubstr("--weight-decay inf"));
  for (const Kind kind : kKinds) EXPECT_TRUE(validated({.kind = kind}).ok());
  EXPECT_TRUE(validated({.kind = Kind::kMomentum, .momentum = 0, .beta1 = 0, .beta2 = 0}).ok());
}

TEST(ParseOptimizer, KnowsEveryNameAndSuggests) {
  for (const Kind kind : kKinds) EXPECT_EQ(*parse_optimizer(name_of(kind)), kind);
  EXPECT_EQ(parse_optimizer("adm").status().message(),
            "'adm' is no optimizer (did you mean 'adam'?); legal are sgd, momentum, nesterov, adam, adamw, mean, adagrad");
  EXPECT_FALSE(parse_optimizer("").ok());
}

}  // namespace
}  // namespace paceline::tensor
