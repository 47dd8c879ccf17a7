#include "training/reference_update.h"

#include <random>

#include <gtest/gtest.h>

#include "job/make_plan.h"
#include "job/testing.h"

namespace paceline::training {
namespace {

// Adam's numbers and groups by pattern: the plain reference and what servers and ranks compute from the plan have the same bits.
TEST(ReferenceUpdate, UpdatesEveryGroupAsThePlanDoes) {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"}) {
    SCOPED_TRACE(optimizer);
    job::JobSpec spec = job::testing::spec_of({{"optimizer", optimizer},
                                               {"learning-rate", "step:0.1,every=2,factor=0.3"},
                                               {"weight-decay", "0.01"},
                                               {"adam-beta1", "0.8"},
                                               {"adam-beta2", "0.95"},
                                               {"adam-epsilon", "1e-4"},
                                               {"parameter-groups", "*.bias:decay=0;fc.*:rate=0.3,decay=0.2"}});
    wire::TensorTable table;
    table.layers = {"conv", "fc"};
    table.tensors = {{"conv.weight", "float32", {40}, Layer{0}, 0},
                     {"conv.bias", "float32", {3}, Layer{0}, 0},
                     {"fc.weight", "float32", {17}, Layer{1}, 0},
                     {"fc.bias", "float32", {5}, Layer{1}, 0}};
    const auto plan = make_plan(spec, table, 1, 1, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const auto rules = update_rules(spec, table);
    ASSERT_TRUE(rules.ok()) << rules.status().message();
    EXPECT_EQ(table, (*plan)->table());
    ReferenceUpdate reference(*rules, table);

    std::mt19937 random(1);
    const auto draw = [&] { return static_cast<float>(random()) * 0x1p-31F - 1; };
    const auto offsets = table.offsets();
    std::vector<float> plain(static_cast<std::size_t>(table.elements()));
    for (float& value : plain) value = draw();
    std::vector<float> planned = plain;
    std::vector<std::vector<float>> states;
    for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
      const int planes = tensor::state_floats_per_parameter((*plan)->optimizer_of(t));
      states.emplace_back(static_cast<std::size_t>(planes * table.tensors[t].elements()), 0.0F);
    }
    for (Iteration iteration = 1; iteration <= 5; ++iteration) {
      std::vector<float> gradient(plain.size());
      for (float& value : gradient) value = draw();
      for (std::uint32_t t = 0; t < table.tensors.size(); ++t) {
        const auto begin = static_cast<std::size_t>(offsets[t]), count = static_cast<std::size_t>(table.tensors[t].elements());
        tensor::step((*plan)->optimizer_of(t), {.learning_rate = (*plan)->learning_rate_of(t, iteration), .step = iteration},
                     std::span(planned).subspan(begin, count), std::span(gradient).subspan(begin, count), states[t]);
      }
      ASSERT_TRUE(reference.apply(iteration, {gradient}, {std::vector<char>(4, 1)}, plain).ok());
      ASSERT_EQ(plain, planned) << "iteration " << iteration;
    }
  }
}

}  // namespace
}  // namespace paceline::training
