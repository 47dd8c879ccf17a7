#include "paceline/profile/layer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json measurement() {
  return Json::parse(R"({"layers": [{"name": "a", "parameters": 10, "forward_s": [3, 1, 2], "backward_s": [4, 5, 9]},
                                    {"name": "b", "parameters": 0, "forward_s": [1, 1], "backward_s": [2, 4]}],
                         "step_s": [20, 30, 25, 10], "warm_up": 2})");
}

MeasuredLayers layers() {
  MeasuredLayers measured = *read_layers_measurement(measurement());
  measured.model = "m";
  measured.source = "here";
  return measured;
}

TEST(LayerTable, MediansAndSpreadsComeFromTheRounds) {
  const MeasuredLayers measured = layers();
  ASSERT_EQ(measured.layers.size(), 2U);
  EXPECT_EQ(measured.layers[0].forward.median, 2);
  EXPECT_EQ(measured.layers[0].forward.least, 1);
  EXPECT_EQ(measured.layers[0].forward.most, 3);
  EXPECT_EQ(measured.layers[0].backward.median, 5);
  EXPECT_EQ(measured.layers[1].backward.median, 3);
  EXPECT_EQ(measured.step.median, 22.5);
  EXPECT_EQ(measured.compute_seconds(), 2 + 5 + 1 + 3);
  EXPECT_EQ(measured.parameters(), 10);
}

TEST(LayerTable, WhatIsRecordedIsATableOfTheMedians) {
  const auto table = replay::parse_table(record_text(layers()), "recorded");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->layers, (std::vector<replay::LayerRow>{{"a", 10, 2, 5}, {"b", 0, 1, 3}}));
}

TEST(LayerTable, TheDocumentHoldsTheLinkAndEachLayersTransfer) {
  MeasuredLink link;
  link.fit = {.start_up = 0.5, .bandwidth = {20}, .residual = 0.25};
  const Json json = profile_json(layers(), link, 7);
  EXPECT_EQ(json["nodes"], 7);
  EXPECT_EQ(json["bandwidth"], 20);
  EXPECT_EQ(json["start_up"], 0.5);
  EXPECT_EQ(json["residual"], 0.25);
  EXPECT_EQ(json["bytes"], (Json{40, 0}));
  EXPECT_EQ(json["transfer"], (Json{2.0, 0.0}));
  EXPECT_EQ(json["forward"], (Json{2.0, 1.0}));
  EXPECT_EQ(json["backward"], (Json{5.0, 3.0}));
  EXPECT_EQ(json["layers"][0], (Json{{"name", "a"}, {"parameters", 10}, {"forward_s", 2.0}, {"backward_s", 5.0}}));
  EXPECT_EQ(json["spread"]["backward"][0], (Json{{"median", 5.0}, {"min", 4.0}, {"max", 9.0}}));
}

TEST(LayerTable, AMeasurementThatIsNoneIsSaid) {
  EXPECT_EQ(read_layers_measurement(Json::object()).status().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(read_layers_measurement(Json{{"layers", {{{"name", 3}}}}}).status().message(), HasSubstr("trainer's measurement"));
}

TEST(MeasuredLinkOf, SizesFollowTheRateAndAreEnoughForALine) {
  const std::vector<Bytes> slow = pull_sizes({10'000}, Bytes{1 << 26});
  EXPECT_THAT(slow, ElementsAre(Bytes{4'096}, Bytes{16'384}, Bytes{65'536}, Bytes{262'144}));
  EXPECT_EQ(pull_sizes({125e6}, Bytes{1 << 26}).back(), Bytes{4'194'304});
  EXPECT_EQ(pull_sizes({1e12}, Bytes{1 << 26}).back(), Bytes{1 << 26});
}

// 1 ms to start, 1 MB/s after that; the first round is ten times as slow and one pull was held up.
TEST(MeasuredLinkOf, FitsTheRoundsAfterTheFirstAndIsNotMovedByOneThatWasHeldUp) {
  const std::vector<std::int64_t> sizes = {1'000, 10'000, 100'000};
  std::vector<cost::LinkSample> samples;
  for (int round = 0; round < 4; ++round) {
    for (const std::int64_t size : sizes) {
      const auto time = std::chrono::microseconds(1'000 + size);
      samples.push_back({Bytes{size}, round == 0 ? 10 * time : round == 2 && size == 10'000 ? 5 * time : Duration(time)});
    }
  }
  const auto link = fit_pulls("there", samples, sizes.size());
  ASSERT_TRUE(link.ok()) << link.status().message();
  EXPECT_NEAR(link->fit.start_up, 1e-3, 1e-9);
  EXPECT_NEAR(link->fit.bandwidth.value, 1e6, 1e-3);
  EXPECT_NEAR(link->fit.residual, 0, 1e-9);
  ASSERT_EQ(link->transfers.size(), 3U);
  EXPECT_EQ(link->transfers[1].seconds.median, 0.011);
  EXPECT_EQ(link->transfers[1].seconds.most, 0.055);
  EXPECT_EQ(link->transfers[0].seconds.most, 0.002);
}

TEST(MeasuredLinkOf, TimesThatDoNotGrowAreAnErrorThatNamesTheServer) {
  std::vector<cost::LinkSample> samples;
  for (int round = 0; round < 3; ++round) {
    samples.push_back({Bytes{1'000}, std::chrono::milliseconds(2)});
    samples.push_back({Bytes{4'000}, std::chrono::milliseconds(1)});
  }
  const Status status = fit_pulls("10.0.0.9:4170", samples, 2).status();
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_THAT(status.message(), HasSubstr("10.0.0.9:4170"));
}

}  // namespace
}  // namespace paceline::cli
