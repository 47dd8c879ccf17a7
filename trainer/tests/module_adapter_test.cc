#include "trainer/module_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/torch.h>

namespace paceline::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Recorder : public LayerObserver {
 public:
  Status before_layer(Layer layer) override {
    opened.push_back(layer.index);
    return on_open ? on_open(layer) : Status();
  }
  void on_gradient(int tensor) override { gradients.push_back(tensor); }

  std::vector<int> opened, gradients;
  std::function<Status(Layer)> on_open;
};

// Registered in an order that is not the order of use; one layer is used twice, one only when asked, one is frozen.
struct Branching : torch::nn::Module {
  torch::nn::Linear last{nullptr}, twice{nullptr}, first{nullptr}, seldom{nullptr}, frozen{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  bool use_seldom = false;

  Branching() {
    last = register_module("last", torch::nn::Linear(4, 2));
    twice = register_module("twice", torch::nn::Linear(4, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    first = register_module("first", torch::nn::Linear(3, 4));
    seldom = register_module("seldom", torch::nn::Linear(4, 4));
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    for (torch::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = norm(torch::relu(first(x)));
    x = twice(torch::relu(twice(x)));
    if (use_seldom) x = seldom(x);
    return last(frozen(x));
  }
};

torch::Tensor input() {
  torch::manual_seed(3);
  return torch::randn({5, 3});
}

std::unique_ptr<ModuleAdapter> adapt(Branching& module) {
  auto adapter = ModuleAdapter::make(module, [&] { module.forward(input()); });
  EXPECT_TRUE(adapter.ok()) << adapter.status().message();
  return std::move(*adapter);
}

TEST(ModuleAdapter, OrdersLayersByFirstUseAndLeavesFrozenOnesOut) {
  torch::manual_seed(1);
  Branching module;
  const auto adapter = adapt(module);
  EXPECT_THAT(adapter->table().layers, ElementsAre("first", "norm", "twice", "last", "seldom"));
  EXPECT_EQ(adapter->table().tensors[0].name, "first.weight");
  EXPECT_EQ(adapter->table().elements(), (3 * 4 + 4) + 2 * 4 + (4 * 4 + 4) + (4 * 2 + 2) + (4 * 4 + 4));
}

TEST(ModuleAdapter, KeepsTheValuesAndTheBuffersOfTheModule) {
  torch::manual_seed(1);
  Branching module, twin;
  torch::manual_seed(1);
  Branching same;
  const auto adapter = adapt(module);
  EXPECT_TRUE(torch::equal(module.first->weight, same.first->weight));
  EXPECT_TRUE(torch::equal(module.norm->running_mean, torch::zeros({4})));  // the dry run was a forward pass in training mode
  EXPECT_EQ(module.norm->num_batches_tracked.item<int>(), 0);
  EXPECT_EQ(adapter->parameters()[0], same.first->weight.data_ptr<float>()[0]);
}

TEST(ModuleAdapter, AsksOnceForEachLayerBeforeItIsReadAndTheReadSeesWhatTheGateWrote) {
  Branching module;
  const auto adapter = adapt(module);
  const auto offsets = adapter->table().offsets();
  Recorder recorder;
  // Parameters are garbage until their gate opens; it makes every weight and bias zero but last's bias.
  std::ranges::fill(adapter->parameters(), std::numeric_limits<float>::quiet_NaN());
  recorder.on_open = [&](Layer layer) {
    for (std::size_t i = 0; i < adapter->table().tensors.size(); ++i) {
      if (adapter->table().tensors[i].layer != layer) continue;
      const float value = adapter->table().tensors[i].name == "last.bias" ? 7.0f : 0.0f;
      std::fill(adapter->parameters().begin() + offsets[i], adapter->parameters().begin() + offsets[i + 1], value);
    }
    return Status();
  };
  torch::Tensor output;
  ASSERT_TRUE(adapter->run_forward(recorder, [&] { output = module.forward(input()); }).ok());
  EXPECT_THAT(recorder.opened, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(torch::equal(output, torch::full({5, 2}, 7.0f)));
}

TEST(ModuleAdapter, GivesTheGradientsOfAutogradAndNamesTheTensorsThatGotNone) {
  torch::manual_seed(1);
  Branching plain;
  torch::manual_seed(1);
  Branching module;
  plain.forward(input()).square().sum().backward();
  const auto adapter = adapt(module);
  std::ranges::fill(adapter->gradients(), 99.0f);  // of an earlier iteration
  Recorder recorder;
  torch::Tensor loss;
  ASSERT_TRUE(adapter->run_forward(recorder, [&] { loss = module.forward(input()).square().sum(); }).ok());
  const std::vector<int> unused = adapter->run_backward(recorder, [&] { loss.backward(); });

  const auto offsets = adapter->table().offsets();
  const auto expected = plain.named_parameters();
  for (std::size_t i = 0; i < adapter->table().tensors.size(); ++i) {
    const std::string& name = adapter->table().tensors[i].name;
    const torch::Tensor gradient = expected[name].grad();
    for (std::int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      EXPECT_EQ(adapter->gradients()[static_cast<std::size_t>(k)],
                gradient.defined() ? gradient.flatten()[k - offsets[i]].item<float>() : 0.0f)
          << name;
    }
  }
  EXPECT_THAT(unused, ElementsAre(8, 9));                                         // seldom's weight and bias
  EXPECT_THAT(recorder.gradients, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));  // twice's once, though it is used twice
}

TEST(ModuleAdapter, ReturnsWhatAGateRefusesAndAsksNoFurther) {
  Branching module;
  const auto adapter = adapt(module);
  Recorder recorder;
  recorder.on_open = [](Layer layer) { return layer.index == 1 ? error(ErrorKind::kDeadline, "layer 1 is late") : Status(); };
  const Status status = adapter->run_forward(recorder, [&] { module.forward(input()); });
  EXPECT_EQ(status.message(), "layer 1 is late");
  EXPECT_THAT(recorder.opened, ElementsAre(0, 1));
}

TEST(ModuleAdapter, WithoutADryRunKeepsTheOrderOfRegistration) {
  Branching module;
  const auto adapter = ModuleAdapter::make(module, nullptr);
  ASSERT_TRUE(adapter.ok());
  EXPECT_EQ((*adapter)->table().layers[0], "last");
}

TEST(ModuleAdapter, RefusesWhatItCannotTrainByName) {
  Branching module;
  module.twice->to(torch::kFloat64);
  EXPECT_THAT(ModuleAdapter::make(module, nullptr).status().message(), HasSubstr("\"twice.weight\" is Double"));
  torch::nn::Sequential empty{torch::nn::ReLU()};
  EXPECT_THAT(ModuleAdapter::make(*empty, nullptr).status().message(), HasSubstr("no parameters"));
}

// The same module, its layers recurrent: LSTM hands its parameters to the operator as a list.
TEST(ModuleAdapter, SeesParametersInsideLists) {
  struct Recurrent : torch::nn::Module {
    torch::nn::Linear out{nullptr};
    torch::nn::LSTM lstm{nullptr};
    Recurrent() {
      out = register_module("out", torch::nn::Linear(4, 1));
      lstm = register_module("lstm", torch::nn::LSTM(3, 4));
    }
    torch::Tensor forward(const torch::Tensor& x) { return out(std::get<0>(lstm(x))); }
  } module;
  const auto forward = [&] { module.forward(torch::randn({2, 5, 3})); };
  const auto adapter = ModuleAdapter::make(module, forward);
  ASSERT_TRUE(adapter.ok());
  EXPECT_THAT((*adapter)->table().layers, ElementsAre("lstm", "out"));
  Recorder recorder;
  ASSERT_TRUE((*adapter)->run_forward(recorder, forward).ok());
  EXPECT_THAT(recorder.opened, ElementsAre(0, 1));
}

}  // namespace
}  // namespace paceline::trainer
