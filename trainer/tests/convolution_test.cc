// Every algorithm against LibTorch's own convolution, and the gradients of every algorithm against finite differences.
#include "trainer/models/convolution.h"

#include <random>

#include <gmock/gmock.h>

#include <torch/torch.h>

#include "trainer/models/network.h"

namespace paceline::trainer::models {
namespace {

using model::ConvolutionAlgorithm;
using torch::Tensor;

struct Case {
  std::int64_t samples, channels, filters, height, width, kernel_height, kernel_width, stride, padding;
  bool bias;
};

model::ConvolutionGeometry geometry_of(const Case& c) {
  model::ConvolutionGeometry geometry;
  geometry.kernel = {c.kernel_height, c.kernel_width};
  geometry.stride = {c.stride, c.stride};
  geometry.padding = {c.padding, c.padding};
  return geometry;
}

torch::nn::Conv2dOptions options_of(const Case& c) {
  return torch::nn::Conv2dOptions(c.channels, c.filters, {c.kernel_height, c.kernel_width})
      .stride(c.stride)
      .padding(c.padding)
      .bias(c.bias);
}

Convolution layer_of(const Case& c) { return Convolution(options_of(c)); }

struct Passes {
  Tensor output, input, weight, bias;  // the last three: gradients
};

Passes passes_of(Convolution& layer, const Tensor& images, const Tensor& weights_of_output) {
  const Tensor input = images.detach().clone().set_requires_grad(true);
  layer->zero_grad();
  const Tensor output = layer->forward(input);
  (output * weights_of_output).sum().backward();
  return {output.detach(), input.grad(), layer->weight.grad().clone(),
          layer->bias.defined() ? layer->bias.grad().clone() : Tensor()};
}

void expect_close(const Tensor& found, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  EXPECT_TRUE(found.is_contiguous()) << what;
  const double largest = wanted.abs().max().item<double>();
  EXPECT_LE((found - wanted).abs().max().item<double>(), tolerance * largest) << what;
}

TEST(Convolution, EveryAlgorithmGivesTheDefaultsResultAndGradientsWithinItsTolerance) {
  torch::manual_seed(1);
  at::set_num_threads(1);
  std::mt19937 random(7);
  const auto pick = [&random](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  std::vector<Case> cases = {{4, 3, 8, 33, 33, 11, 11, 4, 2, true}, {2, 16, 32, 27, 27, 5, 5, 1, 2, true},
                             {1, 1, 1, 3, 3, 3, 3, 1, 0, false},    {3, 8, 8, 13, 13, 3, 3, 1, 1, true},
                             {2, 4, 6, 5, 9, 1, 7, 1, 3, false},    {1, 2, 3, 1, 1, 3, 3, 1, 2, true}};
  for (int i = 0; i < 120; ++i) {
    const bool square3 = pick(0, 1) == 1;
    Case c{pick(1, 5),
           pick(1, 9),
           pick(1, 9),
           pick(3, 17),
           pick(3, 17),
           square3 ? 3 : pick(1, 5),
           square3 ? 3 : pick(1, 5),
           square3 ? 1 : pick(1, 3),
           pick(0, 2),
           pick(0, 1) == 1};
    if (c.kernel_height > c.height + 2 * c.padding || c.kernel_width > c.width + 2 * c.padding) continue;
    cases.push_back(c);
  }
  int compared = 0;
  for (const Case& c : cases) {
    Convolution layer = layer_of(c);
    const Tensor images = torch::randn({c.samples, c.channels, c.height, c.width});
    const Tensor weights = torch::randn_like(layer->forward(images));
    layer->run_with(ConvolutionAlgorithm::kDefault);
    const Passes wanted = passes_of(layer, images, weights);
    for (const ConvolutionAlgorithm algorithm : model::convolution_algorithms()) {
      if (!model::refusal(algorithm, geometry_of(c)).empty()) continue;
      layer->run_with(algorithm);
      const Passes found = passes_of(layer, images, weights);
      const std::string what =
          fmt::format("{} of {}x{}x{}x{}, {} filters of {}x{}, stride {}, padding {}", to_string(algorithm), c.samples, c.channels,
                      c.height, c.width, c.filters, c.kernel_height, c.kernel_width, c.stride, c.padding);
      expect_close(found.output, wanted.output, tolerance(algorithm), what + ": output");
      expect_close(found.input, wanted.input, tolerance(algorithm), what + ": gradient of the input");
      expect_close(found.weight, wanted.weight, tolerance(algorithm), what + ": gradient of the weight");
      if (c.bias) expect_close(found.bias, wanted.bias, tolerance(algorithm), what + ": gradient of the bias");
      ++compared;
    }
  }
  EXPECT_GT(compared, 400);
}

TEST(Convolution, GradientsOfEveryAlgorithmAgreeWithFiniteDifferences) {
  torch::manual_seed(2);
  const Case c{2, 3, 4, 6, 7, 3, 3, 1, 1, true};
  Convolution layer = layer_of(c);
  const Tensor images = torch::randn({c.samples, c.channels, c.height, c.width});
  const Tensor weights = torch::randn({c.samples, c.filters, c.height, c.width});
  // The sum is linear in the weight and in the input, so a large step costs no accuracy.
  const double step = 0.5;
  for (const ConvolutionAlgorithm algorithm : model::convolution_algorithms()) {
    layer->run_with(algorithm);
    const Passes found = passes_of(layer, images, weights);
    torch::NoGradGuard no_gradients;
    const auto loss = [&](const Tensor& of) { return (layer->forward(of) * weights).to(torch::kDouble).sum().item<double>(); };
    const double base = loss(images);
    for (const std::int64_t place : {0, 17, 53, 107}) {
      layer->weight.flatten()[place] += step;
      const double slope = (loss(images) - base) / step;
      layer->weight.flatten()[place] -= step;
      EXPECT_NEAR(found.weight.flatten()[place].item<double>(), slope, 2e-3) << to_string(algorithm) << ", weight " << place;
    }
    for (const std::int64_t place : {0, 40, 125, 251}) {
      Tensor moved = images.clone();
      moved.flatten()[place] += step;
      EXPECT_NEAR(found.input.flatten()[place].item<double>(), (loss(moved) - base) / step, 2e-3)
          << to_string(algorithm) << ", input " << place;
    }
  }
}

TEST(Convolution, WithoutAChoiceTheBitsAreThoseOfConv2d) {
  torch::manual_seed(3);
  const Case c{8, 16, 32, 14, 14, 3, 3, 1, 1, true};
  Convolution layer = layer_of(c);
  torch::nn::Conv2d plain(options_of(c));
  {
    torch::NoGradGuard no_gradients;
    plain->weight.copy_(layer->weight);
    plain->bias.copy_(layer->bias);
  }
  const Tensor images = torch::randn({c.samples, c.channels, c.height, c.width});
  EXPECT_TRUE(torch::equal(layer->forward(images), plain->forward(images)));
}

class Counter : public ConvolutionProbe {
 public:
  void before(Pass pass) override { ++(pass == Pass::kForward ? forward : backward); }
  void after(Pass, std::int64_t results) override { bytes += results; }
  int forward = 0, backward = 0;
  std::int64_t bytes = 0;
};

TEST(Convolution, AProbeSeesBothPassesAndWhatTheyHandOn) {
  const Case c{2, 3, 4, 8, 8, 3, 3, 1, 1, true};
  for (const ConvolutionAlgorithm algorithm : model::convolution_algorithms()) {
    Convolution layer = layer_of(c);
    Counter counter;
    layer->run_with(algorithm);
    layer->set_probe(&counter);
    const Tensor output = layer->forward(torch::randn({2, 3, 8, 8}));  // needs no gradient of its own
    output.sum().backward();
    EXPECT_EQ(counter.forward, 1);
    EXPECT_EQ(counter.backward, 1);
    EXPECT_EQ(counter.bytes, 4 * (2 * 4 * 8 * 8 + 4 * 3 * 3 * 3 + 4)) << to_string(algorithm);
  }
}

TEST(Convolution, EveryConvolutionOfTheModelsCanBeChosenByTheNameOfItsDescription) {
  for (const char* name : {"lenet", "alexnet-32", "vgg-19-32", "resnet-20", "googlenet-aux", "inception-v3-aux"}) {
    const auto network = make(name);
    ASSERT_TRUE(network.ok());
    const auto description = model::describe(name);
    model::ConvolutionChoice choice;
    for (const auto& layer : description->layers) {
      if (layer.convolution) choice[layer.name] = ConvolutionAlgorithm::kGemm;
    }
    EXPECT_TRUE(run_convolutions(**network, choice).ok()) << name;
    EXPECT_EQ(convolutions_of(**network).size(), choice.size()) << name;
    EXPECT_THAT(run_convolutions(**network, {{"fc", ConvolutionAlgorithm::kGemm}}).message(), ::testing::HasSubstr("'fc'"));
  }
}

}  // namespace
}  // namespace paceline::trainer::models
