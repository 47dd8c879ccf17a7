// Networks that are one chain of layers: MLP, LeNet, AlexNet, VGG.
#include "model/builder.h"
#include "model/networks.h"

namespace paceline::model {
namespace {

// Three linear layers; names as the caller has them.
void classifier(Builder& net, const std::vector<std::string>& names, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i < names.size(); ++i) net.linear(names[i], sizes[i], sizes[i + 1]);
}

// The sixteen convolutions of VGG-19 (Simonyan & Zisserman, configuration E). Names are torchvision's: positions in a chain that
// counts activations and pooling as well.
FeatureMap vgg_19_features(Builder& net, FeatureMap x) {
  const std::vector<std::pair<int, std::int64_t>> stages = {{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}};
  int position = 0;
  for (const auto& [convolutions, filters] : stages) {
    for (int i = 0; i < convolutions; ++i, position += 2) {
      x = net.convolution("features." + std::to_string(position), x,
                          {.filters = filters, .kernel = square(3), .padding = square(1)});
    }
    x = net.pooling("features." + std::to_string(position++), x, {.kernel = 2, .stride = 2});
  }
  return x;
}

const std::vector<std::string> kVggClassifier = {"classifier.0", "classifier.3", "classifier.6"};
const std::vector<std::string> kAlexnetClassifier = {"fc6", "fc7", "fc8"};

}  // namespace

ModelDescription mlp() {
  Builder net({1, 28, 28});
  classifier(net, {"fc1", "fc2", "fc3"}, {784, 512, 512, 10});
  return std::move(net).finish(10);
}

ModelDescription lenet() {
  Builder net({1, 28, 28});
  FeatureMap x = net.convolution("conv1", {1, 28, 28}, {.filters = 20, .kernel = square(5)});
  x = net.pooling("pool1", x, {.kernel = 2, .stride = 2});
  x = net.convolution("conv2", x, {.filters = 50, .kernel = square(5)});
  x = net.pooling("pool2", x, {.kernel = 2, .stride = 2});
  classifier(net, {"fc1", "fc2"}, {x.elements(), 500, 10});
  return std::move(net).finish(10);
}

ModelDescription alexnet() {
  Builder net({3, 224, 224});
  FeatureMap x =
      net.convolution("conv1", {3, 224, 224}, {.filters = 96, .kernel = square(11), .stride = square(4), .padding = square(2)});
  x = net.pooling("pool1", x, {.kernel = 3, .stride = 2});
  x = net.convolution("conv2", x, {.filters = 256, .kernel = square(5), .padding = square(2)});
  x = net.pooling("pool2", x, {.kernel = 3, .stride = 2});
  x = net.convolution("conv3", x, {.filters = 384, .kernel = square(3), .padding = square(1)});
  x = net.convolution("conv4", x, {.filters = 384, .kernel = square(3), .padding = square(1)});
  x = net.convolution("conv5", x, {.filters = 256, .kernel = square(3), .padding = square(1)});
  x = net.pooling("pool5", x, {.kernel = 3, .stride = 2});
  classifier(net, kAlexnetClassifier, {x.elements(), 4096, 4096, 1000});
  return std::move(net).finish(1000);
}

ModelDescription alexnet_32() {
  Builder net({3, 32, 32});
  FeatureMap x =
      net.convolution("conv1", {3, 32, 32}, {.filters = 96, .kernel = square(5), .stride = square(2), .padding = square(2)});
  x = net.pooling("pool1", x, {.kernel = 2, .stride = 2});
  x = net.convolution("conv2", x, {.filters = 256, .kernel = square(5), .padding = square(2)});
  x = net.pooling("pool2", x, {.kernel = 2, .stride = 2});
  x = net.convolution("conv3", x, {.filters = 384, .kernel = square(3), .padding = square(1)});
  x = net.convolution("conv4", x, {.filters = 384, .kernel = square(3), .padding = square(1)});
  x = net.convolution("conv5", x, {.filters = 256, .kernel = square(3), .padding = square(1)});
  x = net.pooling("pool5", x, {.kernel = 2, .stride = 2});
  classifier(net, kAlexnetClassifier, {x.elements(), 2048, 2048, 10});
  return std::move(net).finish(10);
}

ModelDescription vgg_19(std::int64_t classes) {
  Builder net({3, 224, 224});
  const FeatureMap x = vgg_19_features(net, {3, 224, 224});
  classifier(net, kVggClassifier, {x.elements(), 4096, 4096, classes});
  return std::move(net).finish(classes);
}

ModelDescription vgg_19_32() {
  Builder net({3, 32, 32});
  const FeatureMap x = vgg_19_features(net, {3, 32, 32});
  classifier(net, kVggClassifier, {x.elements(), 512, 512, 10});
  return std::move(net).finish(10);
}

}  // namespace paceline::model
