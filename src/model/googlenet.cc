// GoogLeNet (Szegedy et al. 2014, table 1): biases, no batch normalisation. The paper's pooling without padding rounds up; here the
// overlapping pooling has padding 1 and rounds down, which gives the same sizes and agrees with Eq 1.
#include "model/builder.h"
#include "model/networks.h"

namespace paceline::model {
namespace {

struct InceptionWidths {
  const char* name;
  std::int64_t conv1x1, reduce3x3, conv3x3, reduce5x5, conv5x5, pool_projection;
};

FeatureMap inception(Builder& net, const FeatureMap& input, const InceptionWidths& widths) {
  const std::string block = std::string(widths.name) + ".";
  net.convolution(block + "conv1x1", input, {.filters = widths.conv1x1, .kernel = square(1)});
  FeatureMap x = net.convolution(block + "reduce3x3", input, {.filters = widths.reduce3x3, .kernel = square(1)});
  net.convolution(block + "conv3x3", x, {.filters = widths.conv3x3, .kernel = square(3), .padding = square(1)});
  x = net.convolution(block + "reduce5x5", input, {.filters = widths.reduce5x5, .kernel = square(1)});
  net.convolution(block + "conv5x5", x, {.filters = widths.conv5x5, .kernel = square(5), .padding = square(2)});
  x = net.pooling(block + "pool", input, {.kernel = 3, .stride = 1, .padding = 1});
  net.convolution(block + "pool_projection", x, {.filters = widths.pool_projection, .kernel = square(1)});
  return {widths.conv1x1 + widths.conv3x3 + widths.conv5x5 + widths.pool_projection, input.height, input.width};
}

void auxiliary_classifier(Builder& net, const std::string& name, const FeatureMap& input) {
  FeatureMap x = net.pooling(name + ".pool", input, {.kind = PoolingKind::kAverage, .kernel = 5, .stride = 3});
  x = net.convolution(name + ".conv", x, {.filters = 128, .kernel = square(1)});
  net.linear(name + ".fc2", net.linear(name + ".fc1", x.elements(), 1024), 1000);
}

const PoolingOptions kHalve{.kernel = 3, .stride = 2, .padding = 1};

}  // namespace

ModelDescription googlenet(Auxiliary auxiliary) {
  Builder net({3, 224, 224});
  FeatureMap x =
      net.convolution("conv1", {3, 224, 224}, {.filters = 64, .kernel = square(7), .stride = square(2), .padding = square(3)});
  x = net.pooling("pool1", x, kHalve);
  x = net.convolution("conv2_reduce", x, {.filters = 64, .kernel = square(1)});
  x = net.convolution("conv2", x, {.filters = 192, .kernel = square(3), .padding = square(1)});
  x = net.pooling("pool2", x, kHalve);
  x = inception(net, x, {"inception3a", 64, 96, 128, 16, 32, 32});
  x = inception(net, x, {"inception3b", 128, 128, 192, 32, 96, 64});
  x = net.pooling("pool3", x, kHalve);
  x = inception(net, x, {"inception4a", 192, 96, 208, 16, 48, 64});
  if (auxiliary == Auxiliary::kWith) auxiliary_classifier(net, "aux1", x);
  x = inception(net, x, {"inception4b", 160, 112, 224, 24, 64, 64});
  x = inception(net, x, {"inception4c", 128, 128, 256, 24, 64, 64});
  x = inception(net, x, {"inception4d", 112, 144, 288, 32, 64, 64});
  if (auxiliary == Auxiliary::kWith) auxiliary_classifier(net, "aux2", x);
  x = inception(net, x, {"inception4e", 256, 160, 320, 32, 128, 128});
  x = net.pooling("pool4", x, kHalve);
  x = inception(net, x, {"inception5a", 256, 160, 320, 32, 128, 128});
  x = inception(net, x, {"inception5b", 384, 192, 384, 48, 128, 128});
  x = net.global_average("avgpool", x);
  net.linear("fc", x.elements(), 1000);
  return std::move(net).finish(1000);
}

}  // namespace paceline::model
