#include "model/convolution_algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::model {
namespace {

using ::testing::HasSubstr;
using Algorithm = ConvolutionAlgorithm;

TEST(ConvolutionAlgorithm, NamesAreReadBackAndWrongOnesAreToldWithTheNearest) {
  for (const Algorithm algorithm : convolution_algorithms()) EXPECT_EQ(parse_algorithm(to_string(algorithm)).value(), algorithm);
  const auto wrong = parse_algorithm("winogard");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(), HasSubstr("winograd"));
  EXPECT_EQ(wrong.status().kind(), ErrorKind::kBadRequest);
}

TEST(ConvolutionChoice, TextIsTheSameForEqualChoicesAndReadsBack) {
  const ConvolutionChoice choice = {{"conv3", Algorithm::kFft}, {"conv1", Algorithm::kDefault}, {"conv2", Algorithm::kGemm}};
  EXPECT_EQ(to_text(choice), "conv2=gemm,conv3=fft");
  EXPECT_EQ(to_text(parse_convolutions(to_text(choice)).value()), to_text(choice));
  EXPECT_TRUE(parse_convolutions("")->empty());
  for (const char* wrong : {"conv2", "=fft", "conv2=fft,conv2=gemm", "conv2=strassen", ",conv2=fft"})
    EXPECT_FALSE(parse_convolutions(wrong).ok()) << wrong;
}

TEST(ConvolutionChoice, OnlyConvolutionsOfTheModelThatTheAlgorithmCanComputeAreLegal) {
  const ModelDescription model = describe("alexnet-32").value();
  EXPECT_TRUE(
      check_convolutions({{"conv3", Algorithm::kWinograd}, {"conv2", Algorithm::kFft}, {"conv1", Algorithm::kGemm}}, model).ok());
  EXPECT_THAT(check_convolutions({{"conv2", Algorithm::kWinograd}}, model).message(), HasSubstr("'conv2' cannot run 'winograd'"));
  EXPECT_THAT(check_convolutions({{"conv9", Algorithm::kFft}}, model).message(),
              HasSubstr("'conv9' is no convolution of model 'alexnet-32'"));
  EXPECT_THAT(check_convolutions({{"fc6", Algorithm::kFft}}, model).message(), HasSubstr("'fc6'"));
}

TEST(ConvolutionChoice, EveryThreeByThreeLayerOfAlexnetHasFiveWays) {
  const ModelDescription model = describe("alexnet").value();
  int layers = 0;
  for (const LayerDescription& layer : model.layers) {
    if (!layer.convolution || layer.convolution->kernel != Extent{3, 3}) continue;
    ++layers;
    for (const Algorithm algorithm : convolution_algorithms()) EXPECT_EQ(refusal(algorithm, *layer.convolution), "") << layer.name;
  }
  EXPECT_EQ(layers, 3);
}

}  // namespace
}  // namespace paceline::model
