#include "trainer/models/network.h"

#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"
#include "model/description.h"
#include "trainer/models/factories.h"

namespace paceline::trainer::models {

namespace functional = torch::nn::functional;

torch::Tensor Network::loss(const torch::Tensor& input, const torch::Tensor& target) {
  return weighted_loss(forward(input, target), {}, 0, answers(target));
}

Score Network::score(const torch::Tensor& input, const torch::Tensor& target) {
  const torch::Tensor right = answers(target);
  const torch::Tensor counted = right.ne(kIgnored);
  const torch::Tensor correct = forward(input, target).argmax(1).eq(right).logical_and(counted);
  return {correct.sum().item<std::int64_t>(), counted.sum().item<std::int64_t>()};
}

torch::Tensor weighted_loss(const torch::Tensor& logits, const std::vector<torch::Tensor>& auxiliary, double share,
                            const torch::Tensor& target) {
  const auto options = functional::CrossEntropyFuncOptions().ignore_index(kIgnored);
  torch::Tensor sum = functional::cross_entropy(logits, target, options);
  for (const torch::Tensor& other : auxiliary) sum = sum + share * functional::cross_entropy(other, target, options);
  return sum;
}

void initialise_rectified(torch::nn::Module& network, std::int64_t classes) {
  torch::NoGradGuard no_gradients;
  for (const auto& module : network.modules(/*include_self=*/false)) {
    if (auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanIn, torch::kReLU);
      convolution->bias.zero_();
    } else if (auto* linear = module->as<torch::nn::Linear>()) {
      const double variance = linear->options.out_features() == classes ? 1.0 : 2.0;
      linear->weight.normal_(0, std::sqrt(variance / static_cast<double>(linear->options.in_features())));
      linear->bias.zero_();
    }
  }
}

void initialise_normalised(torch::nn::Module& network) {
  for (const auto& module : network.modules(/*include_self=*/false)) {
    if (auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

Result<std::shared_ptr<Network>> make(const std::string& name) {
  static const std::vector<std::pair<std::string, std::function<std::shared_ptr<Network>()>>> factories = {
      {"mlp", make_mlp},
      {"lenet", make_lenet},
      {"resnet-20", [] { return make_residual_cifar(20); }},
      {"resnet-110", [] { return make_residual_cifar(110); }},
      {"alexnet", make_alexnet},
      {"alexnet-32", make_alexnet_32},
      {"googlenet", [] { return make_googlenet(Auxiliary::kWithout); }},
      {"googlenet-aux", [] { return make_googlenet(Auxiliary::kWith); }},
      {"inception-v3", [] { return make_inception_v3(Auxiliary::kWithout); }},
      {"inception-v3-aux", [] { return make_inception_v3(Auxiliary::kWith); }},
      {"vgg-19", [] { return make_vgg_19(1000); }},
      {"vgg-19-22k", [] { return make_vgg_19(21841); }},
      {"vgg-19-32", make_vgg_19_32},
      {"resnet-50", make_residual_50},
      {"seq2seq", make_seq2seq},
  };
  for (const auto& [known, factory] : factories) {
    if (known == name) return factory();
  }
  const auto described = model::describe(name);
  PACELINE_CHECK(!described.ok(), "model '{}' is described but cannot be made", name);
  return described.status();
}

}  // namespace paceline::trainer::models
