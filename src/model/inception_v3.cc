// Inception-v3 (Szegedy et al. 2015) with torchvision's names: every convolution has no bias and is followed by its normalisation.
#include "base/check.h"
#include "model/builder.h"
#include "model/networks.h"

namespace paceline::model {
namespace {

struct Options {
  std::int64_t filters;
  Extent kernel;
  std::int64_t stride = 1;
  Extent padding{0, 0};
};

// The network under construction with the name of the block that is being written ("Mixed_5b.").
struct Block {
  Builder& net;
  std::string name;

  FeatureMap basic(const std::string& unit, const FeatureMap& input, const Options& options) const {
    const FeatureMap output = net.convolution(name + unit + ".conv", input,
                                              {.filters = options.filters,
                                               .kernel = options.kernel,
                                               .stride = square(options.stride),
                                               .padding = options.padding,
                                               .bias = false});
    return net.batch_norm(name + unit + ".bn", output);
  }

  FeatureMap pooled(const FeatureMap& input, std::int64_t filters) const {
    const FeatureMap x = net.pooling(name + "pool", input, {.kind = PoolingKind::kAverage, .kernel = 3, .stride = 1, .padding = 1});
    return basic("branch_pool", x, {filters, square(1)});
  }
};

constexpr Extent kRow{1, 7}, kRowPadding{0, 3}, kColumn{7, 1}, kColumnPadding{3, 0};

FeatureMap joined(const std::vector<FeatureMap>& branches) {
  FeatureMap all = branches.front();
  all.channels = 0;
  for (const FeatureMap& branch : branches) {
    PACELINE_CHECK(branch.height == all.height && branch.width == all.width, "branches of different size");
    all.channels += branch.channels;
  }
  return all;
}

// 35 x 35
FeatureMap block_a(const Block& block, const FeatureMap& input, std::int64_t pool_filters) {
  const FeatureMap single = block.basic("branch1x1", input, {64, square(1)});
  FeatureMap five = block.basic("branch5x5_1", input, {48, square(1)});
  five = block.basic("branch5x5_2", five, {64, square(5), 1, square(2)});
  FeatureMap twice = block.basic("branch3x3dbl_1", input, {64, square(1)});
  twice = block.basic("branch3x3dbl_2", twice, {96, square(3), 1, square(1)});
  twice = block.basic("branch3x3dbl_3", twice, {96, square(3), 1, square(1)});
  return joined({single, five, twice, block.pooled(input, pool_filters)});
}

// 35 x 35 to 17 x 17
FeatureMap block_b(const Block& block, const FeatureMap& input) {
  const FeatureMap three = block.basic("branch3x3", input, {384, square(3), 2});
  FeatureMap twice = block.basic("branch3x3dbl_1", input, {64, square(1)});
  twice = block.basic("branch3x3dbl_2", twice, {96, square(3), 1, square(1)});
  twice = block.basic("branch3x3dbl_3", twice, {96, square(3), 2});
  return joined({three, twice, block.net.pooling(block.name + "pool", input, {.kernel = 3, .stride = 2})});
}

// 17 x 17
FeatureMap block_c(const Block& block, const FeatureMap& input, std::int64_t inner) {
  const FeatureMap single = block.basic("branch1x1", input, {192, square(1)});
  FeatureMap seven = block.basic("branch7x7_1", input, {inner, square(1)});
  seven = block.basic("branch7x7_2", seven, {inner, kRow, 1, kRowPadding});
  seven = block.basic("branch7x7_3", seven, {192, kColumn, 1, kColumnPadding});
  FeatureMap twice = block.basic("branch7x7dbl_1", input, {inner, square(1)});
  twice = block.basic("branch7x7dbl_2", twice, {inner, kColumn, 1, kColumnPadding});
  twice = block.basic("branch7x7dbl_3", twice, {inner, kRow, 1, kRowPadding});
  twice = block.basic("branch7x7dbl_4", twice, {inner, kColumn, 1, kColumnPadding});
  twice = block.basic("branch7x7dbl_5", twice, {192, kRow, 1, kRowPadding});
  return joined({single, seven, twice, block.pooled(input, 192)});
}

// 17 x 17 to 8 x 8
FeatureMap block_d(const Block& block, const FeatureMap& input) {
  FeatureMap three = block.basic("branch3x3_1", input, {192, square(1)});
  three = block.basic("branch3x3_2", three, {320, square(3), 2});
  FeatureMap seven = block.basic("branch7x7x3_1", input, {192, square(1)});
  seven = block.basic("branch7x7x3_2", seven, {192, kRow, 1, kRowPadding});
  seven = block.basic("branch7x7x3_3", seven, {192, kColumn, 1, kColumnPadding});
  seven = block.basic("branch7x7x3_4", seven, {192, square(3), 2});
  return joined({three, seven, block.net.pooling(block.name + "pool", input, {.kernel = 3, .stride = 2})});
}

// 8 x 8
FeatureMap block_e(const Block& block, const FeatureMap& input) {
  const Options row{384, {1, 3}, 1, {0, 1}}, column{384, {3, 1}, 1, {1, 0}};
  const FeatureMap single = block.basic("branch1x1", input, {320, square(1)});
  const FeatureMap three = block.basic("branch3x3_1", input, {384, square(1)});
  const FeatureMap three_a = block.basic("branch3x3_2a", three, row);
  const FeatureMap three_b = block.basic("branch3x3_2b", three, column);
  FeatureMap twice = block.basic("branch3x3dbl_1", input, {448, square(1)});
  twice = block.basic("branch3x3dbl_2", twice, {384, square(3), 1, square(1)});
  const FeatureMap twice_a = block.basic("branch3x3dbl_3a", twice, row);
  const FeatureMap twice_b = block.basic("branch3x3dbl_3b", twice, column);
  return joined({single, three_a, three_b, twice_a, twice_b, block.pooled(input, 192)});
}

void auxiliary_classifier(const Block& block, const FeatureMap& input) {
  FeatureMap x = block.net.pooling(block.name + "pool", input, {.kind = PoolingKind::kAverage, .kernel = 5, .stride = 3});
  x = block.basic("conv0", x, {128, square(1)});
  x = block.basic("conv1", x, {768, square(5)});
  block.net.linear(block.name + "fc", x.elements(), 1000);
}

}  // namespace

ModelDescription inception_v3(Auxiliary auxiliary) {
  Builder net({3, 299, 299});
  const Block stem{net, ""};
  FeatureMap x = stem.basic("Conv2d_1a_3x3", {3, 299, 299}, {32, square(3), 2});
  x = stem.basic("Conv2d_2a_3x3", x, {32, square(3)});
  x = stem.basic("Conv2d_2b_3x3", x, {64, square(3), 1, square(1)});
  x = net.pooling("maxpool1", x, {.kernel = 3, .stride = 2});
  x = stem.basic("Conv2d_3b_1x1", x, {80, square(1)});
  x = stem.basic("Conv2d_4a_3x3", x, {192, square(3)});
  x = net.pooling("maxpool2", x, {.kernel = 3, .stride = 2});
  x = block_a({net, "Mixed_5b."}, x, 32);
  x = block_a({net, "Mixed_5c."}, x, 64);
  x = block_a({net, "Mixed_5d."}, x, 64);
  x = block_b({net, "Mixed_6a."}, x);
  x = block_c({net, "Mixed_6b."}, x, 128);
  x = block_c({net, "Mixed_6c."}, x, 160);
  x = block_c({net, "Mixed_6d."}, x, 160);
  x = block_c({net, "Mixed_6e."}, x, 192);
  if (auxiliary == Auxiliary::kWith) auxiliary_classifier({net, "AuxLogits."}, x);
  x = block_d({net, "Mixed_7a."}, x);
  x = block_e({net, "Mixed_7b."}, x);
  x = block_e({net, "Mixed_7c."}, x);
  x = net.global_average("avgpool", x);
  net.linear("fc", x.elements(), 1000);
  ModelDescription model = std::move(net).finish(1000);
  // The auxiliary classifier's second convolution leaves 1x1, of which BatchNorm needs more than one value.
  if (auxiliary == Auxiliary::kWith) model.smallest_mini_batch = 2;
  return model;
}

}  // namespace paceline::model
