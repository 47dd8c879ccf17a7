// Networks that are one chain of layers: MLP, LeNet, AlexNet, VGG.
#include <string>
#include <utility>

#include "trainer/models/factories.h"

namespace paceline::trainer::models {
namespace {

using torch::Tensor;

class Mlp : public Network {
 public:
  Tensor forward(const Tensor& input, const Tensor&) override {
    const Tensor x = torch::relu(fc2_->forward(torch::relu(fc1_->forward(input.flatten(1)))));
    return fc3_->forward(x);
  }

 private:
  torch::nn::Linear fc1_ = register_module("fc1", torch::nn::Linear(784, 512));
  torch::nn::Linear fc2_ = register_module("fc2", torch::nn::Linear(512, 512));
  torch::nn::Linear fc3_ = register_module("fc3", torch::nn::Linear(512, 10));
};

class Lenet : public Network {
 public:
  Tensor forward(const Tensor& input, const Tensor&) override {
    Tensor x = torch::max_pool2d(torch::relu(conv1_->forward(input)), 2, 2);
    x = torch::max_pool2d(torch::relu(conv2_->forward(x)), 2, 2);
    return fc2_->forward(torch::relu(fc1_->forward(x.flatten(1))));
  }

 private:
  Convolution conv1_ = register_module("conv1", Convolution(convolution(1, 20, 5)));
  Convolution conv2_ = register_module("conv2", Convolution(convolution(20, 50, 5)));
  torch::nn::Linear fc1_ = register_module("fc1", torch::nn::Linear(50 * 4 * 4, 500));
  torch::nn::Linear fc2_ = register_module("fc2", torch::nn::Linear(500, 10));
};

// Krizhevsky et al. 2012 without the split over two GPUs. The paper's response normalisation sums over 5 channels with alpha 1e-4;
// torch's takes the mean, hence five times the alpha. The 32 x 32 variant has none: it is there to be quick.
class Alexnet : public Network {
 public:
  enum class Size { k224, k32 };

  explicit Alexnet(Size size) : small_(size == Size::k32) {
    const auto first = small_ ? convolution(3, 96, 5).stride(2).padding(2) : convolution(3, 96, 11).stride(4).padding(2);
    conv1_ = register_module("conv1", Convolution(first));
    conv2_ = register_module("conv2", Convolution(convolution(96, 256, 5).padding(2)));
    conv3_ = register_module("conv3", Convolution(convolution(256, 384, 3).padding(1)));
    conv4_ = register_module("conv4", Convolution(convolution(384, 384, 3).padding(1)));
    conv5_ = register_module("conv5", Convolution(convolution(384, 256, 3).padding(1)));
    const std::int64_t features = small_ ? 256 * 2 * 2 : 256 * 6 * 6, width = small_ ? 2048 : 4096, classes = small_ ? 10 : 1000;
    fc6_ = register_module("fc6", torch::nn::Linear(features, width));
    fc7_ = register_module("fc7", torch::nn::Linear(width, width));
    fc8_ = register_module("fc8", torch::nn::Linear(width, classes));
    initialise_rectified(*this, classes);
  }

  Tensor forward(const Tensor& input, const Tensor&) override {
    Tensor x = pooled(normalised(torch::relu(conv1_->forward(input))));
    x = pooled(normalised(torch::relu(conv2_->forward(x))));
    x = torch::relu(conv3_->forward(x));
    x = torch::relu(conv4_->forward(x));
    x = pooled(torch::relu(conv5_->forward(x)));
    x = torch::relu(fc6_->forward(torch::dropout(x.flatten(1), 0.5, is_training())));
    x = torch::relu(fc7_->forward(torch::dropout(x, 0.5, is_training())));
    return fc8_->forward(x);
  }

 private:
  Tensor pooled(const Tensor& x) const { return torch::max_pool2d(x, small_ ? 2 : 3, 2); }

  Tensor normalised(const Tensor& x) const {
    if (small_) return x;
    return torch::nn::functional::local_response_norm(
        x, torch::nn::functional::LocalResponseNormFuncOptions(5).alpha(5e-4).beta(0.75).k(2));
  }

  bool small_;
  Convolution conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr}, conv4_{nullptr}, conv5_{nullptr};
  torch::nn::Linear fc6_{nullptr}, fc7_{nullptr}, fc8_{nullptr};
};

struct VggClassifier {
  std::int64_t features, width, classes;
};

// Configuration E of Simonyan & Zisserman with torchvision's names: positions in a chain that counts activations and pooling as
// well.
class Vgg19 : public Network {
 public:
  explicit Vgg19(const VggClassifier& sizes) {
    const std::vector<std::pair<int, std::int64_t>> stages = {{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}};
    const auto features = register_module("features", std::make_shared<torch::nn::Module>());
    std::int64_t channels = 3;
    int position = 0;
    for (const auto& [convolutions, filters] : stages) {
      auto& stage = stages_.emplace_back();
      for (int i = 0; i < convolutions; ++i, position += 2) {
        Convolution layer(convolution(channels, filters, 3).padding(1));
        stage.push_back(features->register_module(std::to_string(position), layer));
        channels = filters;
      }
      ++position;
    }
    const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
    fc6_ = classifier->register_module("0", torch::nn::Linear(sizes.features, sizes.width));
    fc7_ = classifier->register_module("3", torch::nn::Linear(sizes.width, sizes.width));
    fc8_ = classifier->register_module("6", torch::nn::Linear(sizes.width, sizes.classes));
    initialise_rectified(*this, sizes.classes);
  }

  Tensor forward(const Tensor& input, const Tensor&) override {
    Tensor x = input;
    for (auto& stage : stages_) {
      for (auto& layer : stage) x = torch::relu(layer->forward(x));
      x = torch::max_pool2d(x, 2, 2);
    }
    x = torch::dropout(torch::relu(fc6_->forward(x.flatten(1))), 0.5, is_training());
    x = torch::dropout(torch::relu(fc7_->forward(x)), 0.5, is_training());
    return fc8_->forward(x);
  }

 private:
  std::vector<std::vector<Convolution>> stages_;
  torch::nn::Linear fc6_{nullptr}, fc7_{nullptr}, fc8_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_mlp() { return std::make_shared<Mlp>(); }
std::shared_ptr<Network> make_lenet() { return std::make_shared<Lenet>(); }
std::shared_ptr<Network> make_alexnet() { return std::make_shared<Alexnet>(Alexnet::Size::k224); }
std::shared_ptr<Network> make_alexnet_32() { return std::make_shared<Alexnet>(Alexnet::Size::k32); }
std::shared_ptr<Network> make_vgg_19(std::int64_t classes) {
  return std::make_shared<Vgg19>(VggClassifier{.features = 512LL * 7 * 7, .width = 4096, .classes = classes});
}
std::shared_ptr<Network> make_vgg_19_32() {
  return std::make_shared<Vgg19>(VggClassifier{.features = 512, .width = 512, .classes = 10});
}

}  // namespace paceline::trainer::models
