// Residual networks (He et al. 2015). Names and order are torchvision's: in a block the main branch runs before the shortcut.
#include "base/check.h"
#include "model/builder.h"
#include "model/networks.h"

namespace paceline::model {
namespace {

struct Unit {  // a convolution without bias and the normalisation behind it
  std::string convolution;
  std::string batch_norm;
  std::int64_t filters;
  std::int64_t kernel;
  std::int64_t stride;
};

FeatureMap normalised(Builder& net, const FeatureMap& input, const Unit& unit) {
  const FeatureMap output = net.convolution(unit.convolution, input,
                                            {.filters = unit.filters,
                                             .kernel = square(unit.kernel),
                                             .stride = square(unit.stride),
                                             .padding = square(unit.kernel / 2),
                                             .bias = false});
  return net.batch_norm(unit.batch_norm, output);
}

FeatureMap bottleneck(Builder& net, const std::string& block, const FeatureMap& input, std::int64_t width, std::int64_t stride) {
  FeatureMap x = normalised(net, input, {block + "conv1", block + "bn1", width, 1, 1});
  x = normalised(net, x, {block + "conv2", block + "bn2", width, 3, stride});
  x = normalised(net, x, {block + "conv3", block + "bn3", 4 * width, 1, 1});
  if (input.channels != x.channels) {
    const FeatureMap shortcut = normalised(net, input, {block + "downsample.0", block + "downsample.1", 4 * width, 1, stride});
    PACELINE_CHECK(shortcut == x, "the shortcut of {} does not fit", block);
  }
  return x;
}

std::string block_name(int stage, int block) { return "layer" + std::to_string(stage) + "." + std::to_string(block) + "."; }

}  // namespace

ModelDescription residual_cifar(int depth) {
  PACELINE_CHECK(depth >= 8 && (depth - 2) % 6 == 0, "a residual network for CIFAR has 6n + 2 layers, not {}", depth);
  const int blocks = (depth - 2) / 6;
  Builder net({3, 32, 32});
  FeatureMap x = normalised(net, {3, 32, 32}, {"conv1", "bn1", 16, 3, 1});
  for (int stage = 1; stage <= 3; ++stage) {
    const std::int64_t width = std::int64_t{16} << (stage - 1);
    for (int i = 0; i < blocks; ++i) {
      const std::string block = block_name(stage, i);
      x = normalised(net, x, {block + "conv1", block + "bn1", width, 3, stage > 1 && i == 0 ? 2 : 1});
      x = normalised(net, x, {block + "conv2", block + "bn2", width, 3, 1});
    }
  }
  x = net.global_average("avgpool", x);
  net.linear("fc", x.elements(), 10);
  return std::move(net).finish(10);
}

ModelDescription residual_50() {
  const std::vector<int> blocks = {3, 4, 6, 3};
  Builder net({3, 224, 224});
  FeatureMap x = normalised(net, {3, 224, 224}, {"conv1", "bn1", 64, 7, 2});
  x = net.pooling("maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int stage = 1; stage <= 4; ++stage) {
    for (int i = 0; i < blocks[static_cast<std::size_t>(stage - 1)]; ++i) {
      x = bottleneck(net, block_name(stage, i), x, std::int64_t{64} << (stage - 1), stage > 1 && i == 0 ? 2 : 1);
    }
  }
  x = net.global_average("avgpool", x);
  net.linear("fc", x.elements(), 1000);
  return std::move(net).finish(1000);
}

}  // namespace paceline::model
