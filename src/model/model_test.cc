#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "model/builder.h"
#include "model/description.h"

namespace paceline::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDescription described(const std::string& name) {
  auto model = describe(name);
  PACELINE_CHECK(model.ok(), "{}", model.status().message());
  return std::move(model).value();
}

const LayerDescription& layer_of(const ModelDescription& model, const std::string& name) {
  const auto found = std::find_if(model.layers.begin(), model.layers.end(), [&](const auto& layer) { return layer.name == name; });
  PACELINE_CHECK(found != model.layers.end(), "{} has no layer {}", model.name, name);
  return *found;
}

TEST(Describe, HasTheParametersOfThePublishedNetworks) {
  const std::map<std::string, std::int64_t> published = {
      {"mlp", 669706},       {"lenet", 431080},       {"resnet-20", 269722},       {"resnet-110", 1727962},
      {"alexnet", 62378344}, {"googlenet", 6998552},  {"googlenet-aux", 13378280}, {"inception-v3", 23834568},
      {"vgg-19", 143667240}, {"resnet-50", 25557032}, {"vgg-19-22k", 229052817},   {"inception-v3-aux", 27161264},
      {"seq2seq", 26419741},
  };
  for (const auto& [name, parameters] : published) EXPECT_EQ(described(name).parameters(), parameters) << name;
}

TEST(Describe, HasTheParametersCountedByHandOfTheSmallImageVariants) {
  // Filters x (inputs x kernel + 1) of each convolution, then outputs x (inputs + 1) of each linear layer.
  EXPECT_EQ(described("alexnet-32").parameters(), 96 * (3 * 25 + 1) + 256 * (96 * 25 + 1) + 384 * (256 * 9 + 1) +
                                                      384 * (384 * 9 + 1) + 256 * (384 * 9 + 1) + 2048 * (1024 + 1) +
                                                      2048 * (2048 + 1) + 10 * (2048 + 1));
  // VGG-19's convolutions are what its published total leaves without the three large linear layers.
  const std::int64_t convolutions = 143667240 - 4096 * (25088 + 1) - 4096 * (4096 + 1) - 1000 * (4096 + 1);
  EXPECT_EQ(described("vgg-19-32").parameters(), convolutions + 2 * 512 * (512 + 1) + 10 * (512 + 1));
}

TEST(Describe, CountsTheMultiplyAccumulatesThatArePublished) {
  EXPECT_NEAR(double(described("resnet-50").macs()), 4.089e9, 0.001e9);     // torchvision: 4.09
  EXPECT_NEAR(double(described("vgg-19").macs()), 19.632e9, 0.001e9);       // torchvision: 19.63
  EXPECT_NEAR(double(described("inception-v3").macs()), 5.713e9, 0.001e9);  // torchvision: 5.71
  EXPECT_NEAR(double(described("alexnet").macs()), 1.135e9, 0.01e9);
  // By hand: the first convolution, six of the first stage, then a halving one and five in each further stage, and the classifier.
  EXPECT_EQ(described("resnet-20").macs(),
            1024 * 16 * 27 + 6 * 1024 * 16 * 144 + 256 * 32 * (144 + 5 * 288) + 64 * 64 * (288 + 5 * 576) + 640);
  EXPECT_NEAR(double(described("resnet-110").macs()), 253e6, 2e6);
  EXPECT_NEAR(double(described("googlenet").macs()), 1.58e9, 0.01e9);
  EXPECT_EQ(described("mlp").macs(), 784 * 512 + 512 * 512 + 512 * 10);
  EXPECT_EQ(described("lenet").macs(), 24 * 24 * 20 * 25 + 8 * 8 * 50 * 20 * 25 + 800 * 500 + 500 * 10);
}

TEST(Describe, CountsAnLstmAndAnAttentionPerToken) {
  const ModelDescription model = described("seq2seq");
  EXPECT_EQ(layer_of(model, "encoder1").macs, 25 * 2 * 4 * 256 * (512 + 256));
  EXPECT_EQ(layer_of(model, "decoder1").macs, 25 * 4 * 512 * (1024 + 512));
  EXPECT_EQ(layer_of(model, "attention").macs, 25 * (3 * 512 * 512 + 2 * 25 * 512));
  EXPECT_EQ(layer_of(model, "output").macs, 25 * 512 * 7709);
  EXPECT_EQ(layer_of(model, "source_embedding").macs, 0);
}

TEST(Describe, HasAsManyWordsOfTheSourceAsItsEmbeddingHasRows) {
  for (const std::string& name : names()) {
    const ModelDescription model = described(name);
    const std::int64_t rows = name == "seq2seq" ? layer_of(model, "source_embedding").tensors.front().shape.front() : 0;
    EXPECT_EQ(model.source_words, rows) << name;
  }
}

TEST(Describe, RefusesAMiniBatchOfWhichBatchNormSeesOneValue) {
  for (const std::string& name : names()) {
    EXPECT_EQ(described(name).check_mini_batch(1).ok(), name != "inception-v3-aux") << name;
    EXPECT_TRUE(described(name).check_mini_batch(2).ok()) << name;
  }
  const Status status = described("inception-v3-aux").check_mini_batch(1);
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_EQ(status.subject(), "--mini-batch");
  EXPECT_THAT(status.message(), HasSubstr("inception-v3-aux needs a --mini-batch of at least 2"));
}

TEST(Describe, ListsLayersInForwardOrder) {
  const std::map<std::string, std::pair<std::string, std::string>> ends = {
      {"mlp", {"fc1", "fc3"}},
      {"lenet", {"conv1", "fc2"}},
      {"resnet-20", {"conv1", "fc"}},
      {"resnet-110", {"conv1", "fc"}},
      {"resnet-50", {"conv1", "fc"}},
      {"alexnet", {"conv1", "fc8"}},
      {"alexnet-32", {"conv1", "fc8"}},
      {"googlenet", {"conv1", "fc"}},
      {"googlenet-aux", {"conv1", "fc"}},
      {"vgg-19", {"features.0", "classifier.6"}},
      {"vgg-19-22k", {"features.0", "classifier.6"}},
      {"vgg-19-32", {"features.0", "classifier.6"}},
      {"inception-v3", {"Conv2d_1a_3x3.conv", "fc"}},
      {"inception-v3-aux", {"Conv2d_1a_3x3.conv", "fc"}},
      {"seq2seq", {"source_embedding", "output"}},
  };
  EXPECT_EQ(ends.size(), names().size());
  for (const std::string& name : names()) {
    ASSERT_TRUE(ends.contains(name)) << name;
    EXPECT_EQ(described(name).layers.front().name, ends.at(name).first) << name;
    EXPECT_EQ(described(name).layers.back().name, ends.at(name).second) << name;
  }
}

TEST(Describe, RunsAShortcutAfterTheMainBranch) {
  std::vector<std::string> block;
  for (const LayerDescription& layer : described("resnet-50").layers) {
    if (layer.name.rfind("layer2.0.", 0) == 0) block.push_back(layer.name.substr(9));
  }
  EXPECT_THAT(block, ElementsAre("conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "downsample.0", "downsample.1"));
}

TEST(Describe, KeepsSumsAndNamesConsistentInEveryModel) {
  for (const std::string& name : names()) {
    const ModelDescription model = described(name);
    EXPECT_EQ(model.name, name);
    std::set<std::string> seen;
    for (const LayerDescription& layer : model.layers) {
      const std::string where = name + " " + layer.name;
      EXPECT_TRUE(seen.insert(layer.name).second) << where << " stands twice";
      std::int64_t parameters = 0;
      for (const TensorDescription& tensor : layer.tensors) parameters += tensor.elements();
      EXPECT_EQ(layer.parameters, parameters) << where;
      EXPECT_GT(layer.parameters, 0) << where;
      EXPECT_EQ(layer.convolution.has_value(), layer.kind == LayerKind::kConvolution) << where;
      EXPECT_EQ(layer.linear.has_value(), layer.kind == LayerKind::kLinear) << where;
      EXPECT_EQ(layer.macs == 0, layer.kind == LayerKind::kBatchNorm || layer.kind == LayerKind::kEmbedding) << where;
    }
    EXPECT_EQ(model.classifiers().back().back(), model.classes) << name;
  }
}

TEST(FeatureMaps, OfAlexNetGiveTheMemoryOfTheWorkedExample) {
  // docs/algorithms.md, section 5: mini-batch 128, feature maps 472.6e6 bytes, convolutions 44.97e6, classifier 713.0e6.
  const ModelDescription model = described("alexnet");
  double maps = 0, convolutions = 0, classifier = 0;
  for (const FeatureMap& map : model.feature_maps()) maps += double(map.elements()) * 128 * 4;
  for (const LayerDescription& layer : model.layers) {
    if (layer.convolution) convolutions += double(layer.parameters) * 12;
  }
  ASSERT_EQ(model.classifiers().size(), 1u);
  const auto sizes = model.classifiers().front();
  EXPECT_THAT(sizes, ElementsAre(9216, 4096, 4096, 1000));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    classifier += double(sizes[i]) * 128 * 4;
    if (i > 0) classifier += double(sizes[i] * sizes[i - 1] + sizes[i]) * 12;
  }
  EXPECT_NEAR(maps, 472.6e6, 0.05e6);
  EXPECT_NEAR(convolutions, 44.97e6, 0.005e6);
  EXPECT_NEAR(classifier, 713.0e6, 0.05e6);
}

TEST(FeatureMaps, StartWithTheInputAndIncludePooling) {
  EXPECT_THAT(described("lenet").feature_maps(), ElementsAre(FeatureMap{1, 28, 28}, FeatureMap{20, 24, 24}, FeatureMap{20, 12, 12},
                                                             FeatureMap{50, 8, 8}, FeatureMap{50, 4, 4}));
  EXPECT_TRUE(described("mlp").feature_maps().empty());
  EXPECT_TRUE(described("seq2seq").feature_maps().empty());
}

TEST(Classifiers, IncludeTheAuxiliaryOnes) {
  EXPECT_THAT(described("googlenet").classifiers(), ElementsAre(ElementsAre(1024, 1000)));
  EXPECT_THAT(described("googlenet-aux").classifiers(),
              ElementsAre(ElementsAre(2048, 1024, 1000), ElementsAre(2048, 1024, 1000), ElementsAre(1024, 1000)));
  EXPECT_THAT(described("inception-v3-aux").classifiers(), ElementsAre(ElementsAre(768, 1000), ElementsAre(2048, 1000)));
  EXPECT_THAT(described("mlp").classifiers(), ElementsAre(ElementsAre(784, 512, 512, 10)));
}

TEST(Describe, SuggestsTheNameThatWasMeant) {
  const auto missing = describe("resnet50");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(missing.status().message(), HasSubstr("did you mean 'resnet-50'"));
  EXPECT_THAT(missing.status().message(), HasSubstr("vgg-19-22k"));
  EXPECT_FALSE(describe("").ok());
  EXPECT_FALSE(describe("LeNet").ok());
}

TEST(BuilderDeathTest, RefusesAKernelLargerThanItsInput) {
  Builder net({1, 4, 4});
  EXPECT_DEATH(net.convolution("conv", {1, 4, 4}, {.filters = 1, .kernel = square(5)}), "kernel 5");
}

TEST(Builder, RoundsOutputSizesDown) {
  Builder net({3, 10, 7});
  const FeatureMap x = net.convolution("conv", {3, 10, 7}, {.filters = 2, .kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}});
  EXPECT_EQ(x, (FeatureMap{2, 5, 2}));
  EXPECT_EQ(net.pooling("pool", x, {.kernel = 2, .stride = 2}), (FeatureMap{2, 2, 1}));
}

}  // namespace
}  // namespace paceline::model
