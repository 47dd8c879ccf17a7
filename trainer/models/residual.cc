// Residual networks (He et al. 2015) with torchvision's names.
#include <string>

#include "trainer/models/factories.h"

namespace paceline::trainer::models {
namespace {

using torch::Tensor;
using torch::nn::BatchNorm2d;

Convolution plain(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return Convolution(convolution(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// Two 3x3 convolutions. Where the size halves the shortcut takes every second pixel and fills the new channels with zeros (option
// A), half of them before and half behind the old ones.
class BasicBlock : public torch::nn::Module {
 public:
  BasicBlock(std::int64_t in, std::int64_t out)
      : new_channels_(out - in),
        conv1_(register_module("conv1", plain(in, out, 3, in == out ? 1 : 2))),
        bn1_(register_module("bn1", BatchNorm2d(out))),
        conv2_(register_module("conv2", plain(out, out, 3, 1))),
        bn2_(register_module("bn2", BatchNorm2d(out))) {}

  Tensor forward(const Tensor& input) {
    Tensor x = torch::relu(bn1_->forward(conv1_->forward(input)));
    x = bn2_->forward(conv2_->forward(x));
    return torch::relu(x + shortcut(input));
  }

 private:
  Tensor shortcut(const Tensor& input) const {
    if (new_channels_ == 0) return input;
    const Tensor halved = input.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2);
    return torch::constant_pad_nd(halved, {0, 0, 0, 0, new_channels_ / 2, new_channels_ - new_channels_ / 2});
  }

  std::int64_t new_channels_;
  Convolution conv1_;
  BatchNorm2d bn1_;
  Convolution conv2_;
  BatchNorm2d bn2_;
};

class ResidualCifar : public Network {
 public:
  explicit ResidualCifar(int depth) {
    std::int64_t channels = 16;
    for (int stage = 1; stage <= 3; ++stage) {
      const auto parent = register_module("layer" + std::to_string(stage), std::make_shared<torch::nn::Module>());
      const std::int64_t width = std::int64_t{16} << (stage - 1);
      for (int i = 0; i < (depth - 2) / 6; ++i) {
        blocks_.push_back(parent->register_module(std::to_string(i), std::make_shared<BasicBlock>(channels, width)));
        channels = width;
      }
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, 10));
    initialise_normalised(*this);
  }

  Tensor forward(const Tensor& input, const Tensor&) override {
    Tensor x = torch::relu(bn1_->forward(conv1_->forward(input)));
    for (const auto& block : blocks_) x = block->forward(x);
    return fc_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  Convolution conv1_ = register_module("conv1", plain(3, 16, 3, 1));
  BatchNorm2d bn1_ = register_module("bn1", BatchNorm2d(16));
  std::vector<std::shared_ptr<BasicBlock>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

// The stride is in the 3x3 convolution, as in torchvision (the paper has it in the first 1x1).
class Bottleneck : public torch::nn::Module {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", plain(in, width, 1, 1))),
        bn1_(register_module("bn1", BatchNorm2d(width))),
        conv2_(register_module("conv2", plain(width, width, 3, stride))),
        bn2_(register_module("bn2", BatchNorm2d(width))),
        conv3_(register_module("conv3", plain(width, 4 * width, 1, 1))),
        bn3_(register_module("bn3", BatchNorm2d(4 * width))) {
    if (in == 4 * width) return;
    const auto parent = register_module("downsample", std::make_shared<torch::nn::Module>());
    shortcut_ = parent->register_module("0", plain(in, 4 * width, 1, stride));
    shortcut_bn_ = parent->register_module("1", BatchNorm2d(4 * width));
  }

  Tensor forward(const Tensor& input) {
    Tensor x = torch::relu(bn1_->forward(conv1_->forward(input)));
    x = torch::relu(bn2_->forward(conv2_->forward(x)));
    x = bn3_->forward(conv3_->forward(x));
    return torch::relu(x + (shortcut_ ? shortcut_bn_->forward(shortcut_->forward(input)) : input));
  }

 private:
  Convolution conv1_;
  BatchNorm2d bn1_;
  Convolution conv2_;
  BatchNorm2d bn2_;
  Convolution conv3_;
  BatchNorm2d bn3_;
  Convolution shortcut_{nullptr};
  BatchNorm2d shortcut_bn_{nullptr};
};

class Residual50 : public Network {
 public:
  Residual50() {
    const std::vector<int> counts = {3, 4, 6, 3};
    std::int64_t channels = 64;
    for (std::size_t stage = 0; stage < counts.size(); ++stage) {
      const auto parent = register_module("layer" + std::to_string(stage + 1), std::make_shared<torch::nn::Module>());
      const std::int64_t width = std::int64_t{64} << stage;
      for (int i = 0; i < counts[stage]; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks_.push_back(parent->register_module(std::to_string(i), std::make_shared<Bottleneck>(channels, width, stride)));
        channels = 4 * width;
      }
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, 1000));
    initialise_normalised(*this);
  }

  Tensor forward(const Tensor& input, const Tensor&) override {
    Tensor x = torch::max_pool2d(torch::relu(bn1_->forward(conv1_->forward(input))), 3, 2, 1);
    for (const auto& block : blocks_) x = block->forward(x);
    return fc_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  Convolution conv1_ = register_module("conv1", plain(3, 64, 7, 2));
  BatchNorm2d bn1_ = register_module("bn1", BatchNorm2d(64));
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_residual_cifar(int depth) { return std::make_shared<ResidualCifar>(depth); }
std::shared_ptr<Network> make_residual_50() { return std::make_shared<Residual50>(); }

}  // namespace paceline::trainer::models
