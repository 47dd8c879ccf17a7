#include "planner/tuning/choose_schedule.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "job/make_plan.h"
#include "job/testing.h"
#include "planner/tuning/choice.h"
#include "replay/table.h"
#include "scheduling/slice_size.h"
#include "simulation/predict.h"

namespace paceline::tuning {
namespace {

using job::testing::give;
using job::testing::spec_of;
using report::Json;
using ::testing::HasSubstr;

constexpr cost::LinkFit kLink{.start_up = 100e-6, .bandwidth = {117e6}, .residual = 0.02};

// A heavy layer near the end, as in VGG-19.
replay::LayerTable table() {
  replay::LayerTable table;
  for (const std::int64_t parameters : {2'000, 40'000, 150'000, 600'000, 2'400'000, 2'400'000, 100'000'000, 16'000'000, 4'000'000})
    table.layers.push_back({"layer " + std::to_string(table.layers.size()), parameters, 0.02, 0.04});
  return table;
}

class ChooseSchedule : public ::testing::Test {
 protected:
  ChooseSchedule() : folder_(std::filesystem::temp_directory_path() / ("choose_schedule_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "table.json") << replay::to_text(table(), Json::object());
    settings_.task.model = "replay:" + (folder_ / "table.json").string();
    settings_.task.scale = 10;
  }
  ~ChooseSchedule() override { std::filesystem::remove_all(folder_); }

  wire::TensorTable tensors() const { return replay::tensors_of(replay::scaled(table(), settings_.task.scale)); }

  // What the report says; `chosen_` are the settings afterwards.
  Json choose(const runtime::Gathering& gathering = {.both = 4, .link = kLink}) {
    chosen_ = settings_;
    const auto result = choose_schedule(chosen_, tensors(), 4, 4, gathering,
                                        [this](const job::JobSpec&, std::int32_t) -> Result<double> { return aggregation_; });
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : Json();
  }
  std::int64_t largest_unit() const {
    std::int64_t largest = 0;
    const auto plan = job::make_plan(chosen_, tensors(), 4, 4, 1);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    for (const scheduling::Unit& unit : (*plan)->units().units) largest = std::max(largest, unit.elements);
    return largest;
  }

  std::filesystem::path folder_;
  job::JobSpec settings_, chosen_;
  double aggregation_ = 0;  // seconds for each byte
};

TEST_F(ChooseSchedule, PredictsTheCandidatesOfAReplayAndTakesTheFastest) {
  const Json tuned = choose();
  EXPECT_EQ(tuned["by"], "prediction");
  ASSERT_GE(tuned["candidates"].size(), 8U);
  double best = 1e9;
  for (const Json& candidate : tuned["candidates"]) best = std::min(best, candidate["seconds"].get<double>());
  EXPECT_LE(tuned["predicted"]["seconds"].get<double>(), best * 1.01);
  EXPECT_GE(tuned["predicted"]["seconds"].get<double>(), tuned["predicted"]["lower_bound"].get<double>() * 0.99);
  EXPECT_EQ(chosen_.schedule.slice, tuned["slice"].get<std::int64_t>());
  EXPECT_EQ(chosen_.schedule.merge, tuned["merge"].get<std::int64_t>());
  EXPECT_EQ(to_text(chosen_.schedule.window), tuned["window"].get<std::string>());
  EXPECT_EQ(to_string(*chosen_.schedule.back), tuned["return"].get<std::string>());
  EXPECT_TRUE(job::schedule_of(chosen_).ok());
  EXPECT_THAT(tuned["why"].get<std::string>(), HasSubstr("predicted"));
  EXPECT_THAT(tuned["why"].get<std::string>(), HasSubstr("117.0 MB/s"));
}

// Bytes and link are those of the scaled job, sizes in settings those of the model: dividing twice would cut slices ten times too
// small.
TEST_F(ChooseSchedule, SizesAreDividedByTheScaleOnce) {
  std::filesystem::remove(folder_ / "table.json");  // so that the formula chooses
  const Json tuned = choose();
  EXPECT_EQ(tuned["by"], "formula");
  EXPECT_THAT(tuned["why"].get<std::string>(), HasSubstr("by formula, since"));
  const Bytes model{tensors().elements() * 4};
  const Bytes slice = scheduling::best_slice({.nodes = 4, .model = model, .start_up = kLink.start_up, .link = kLink.bandwidth},
                                             {.smallest = {20'000}, .largest = {800'000}});
  ASSERT_GT(slice.count, 20'000);
  ASSERT_LT(slice.count, 800'000);
  EXPECT_EQ(tuned["slice"], slice.count / 4 * 10);
  EXPECT_LE(largest_unit(), slice.count / 4);
  EXPECT_GT(largest_unit(), slice.count / 4 * 8 / 10);
  // A slower link with cheaper messages: the limits are those of the model too.
  EXPECT_EQ(choose({.both = 4, .link = cost::LinkFit{.start_up = 1e-6, .bandwidth = {1e5}}})["slice"], 50'000);
  EXPECT_EQ(choose({.both = 4, .link = cost::LinkFit{.start_up = 0.1, .bandwidth = {1e9}}})["slice"], 2'000'000);
}

TEST_F(ChooseSchedule, PredictsANetworkFromWhatItsWorkersMeasured) {
  const Json of_replay = choose();
  wire::LayerSeconds seconds;
  for (const replay::LayerRow& row : table().layers) {
    seconds.forward.push_back(row.forward);
    seconds.backward.push_back(row.backward);
  }
  // Not the file's but the job's tensors are predicted, so the replay's sizes can stand for a network's.
  settings_.task.model = "lenet";
  const Json tuned = choose({.both = 4, .link = kLink, .seconds = seconds});
  EXPECT_EQ(tuned["by"], "prediction");
  EXPECT_EQ(tuned["predicted"], of_replay["predicted"]);
  EXPECT_EQ(tuned["candidates"], of_replay["candidates"]);
  for (double& value : seconds.forward) value *= 100;
  EXPECT_GT(choose({.both = 4, .link = kLink, .seconds = seconds})["predicted"]["seconds"], of_replay["predicted"]["seconds"]);
}

TEST_F(ChooseSchedule, WhatIsTypedStays) {
  give(settings_, "slice", "500000");
  give(settings_, "merge", "0");
  give(settings_, "window", "1MB");
  give(settings_, "return", "pull-by-layer");
  give(settings_, "ordered-places", "worker-egress,window");
  const Json tuned = choose();
  ASSERT_EQ(tuned["candidates"].size(), 1U);
  EXPECT_EQ(chosen_.schedule.slice, 500000);
  EXPECT_EQ(chosen_.schedule.merge, 0);
  EXPECT_EQ(to_text(chosen_.schedule.window), "1MB");
  EXPECT_EQ(chosen_.schedule.back, scheduling::Return::kPullByLayer);
  EXPECT_EQ(to_text(chosen_.schedule.places), "worker-egress,window");
  EXPECT_LE(largest_unit(), 50'000);
  settings_ = spec_of({{"model", settings_.task.model}, {"ordered-places", "worker-egress"}, {"scale", "10"}});
  choose();
  EXPECT_TRUE(job::schedule_of(chosen_).ok()) << "no window was chosen where there is none";
}

// What a prediction of the same job says that is given the batches' algorithm and the way gradients are pushed.
TEST_F(ChooseSchedule, PredictsBatchesAsTheyWereAskedFor) {
  simulation::Job job{.table = tensors()};
  for (const replay::LayerRow& row : table().layers) {
    job.forward.push_back(row.forward);
    job.backward.push_back(row.backward);
  }
  const simulation::Cluster cluster{.workers = 4,
                                    .servers = 4,
                                    .layout = simulation::Cluster::Layout::kShared,
                                    .link = kLink.bandwidth,
                                    .start_up = 0.5,
                                    .processing = 30e-6};
  std::set<double> different;
  for (const char* batching : {"", "ibatch", "backward-greedy"}) {
    for (const char* push : {"", "in-batches"}) {
      give(settings_, "slice", "1000000");
      give(settings_, "merge", "0");
      give(settings_, "window", "8MB");
      give(settings_, "ordered-places", "worker-egress,window");
      give(settings_, "return", "pull-in-batches");
      give(settings_, "batching", batching);
      give(settings_, "push", push);
      cost::LinkFit link = kLink;
      link.start_up = cluster.start_up;
      const Json tuned = choose({.both = 4, .link = link});
      auto schedule = *job::schedule_of(settings_);
      schedule.cut = scheduling::scaled(schedule.cut, settings_.task.scale);
      const auto expected = simulation::predict(job, schedule, cluster);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      EXPECT_EQ(tuned["predicted"]["seconds"], expected->iteration) << "'" << batching << "' '" << push << "'";
      different.insert(expected->iteration);
    }
  }
  EXPECT_GE(different.size(), 3U) << "each of them matters";
}

TEST_F(ChooseSchedule, PredictsWithWhatAServersWorkWasMeasuredToTake) {
  give(settings_, "slice", "1000000");
  const Json free = choose();
  EXPECT_EQ(free["aggregation"], 0);
  aggregation_ = 4 / kLink.bandwidth.value;  // four times as long as the bytes take, so that it cannot hide
  const Json busy = choose();
  EXPECT_EQ(busy["aggregation"], aggregation_);
  EXPECT_GT(busy["predicted"]["seconds"].get<double>(), free["predicted"]["seconds"].get<double>() * 1.01);
}

TEST_F(ChooseSchedule, AServersWorkIsMeasuredWithEveryOptimizerAndCodec) {
  for (const char* optimizer : {"sgd", "adam"}) {
    for (const char* wire : {"float32", "bfloat16", "dropping:0.01"}) {
      give(settings_, "optimizer", optimizer);
      give(settings_, "wire", wire);
      for (const std::int32_t workers : {1, 4}) {
        const auto measured = measured_server_cost(settings_, workers);
        ASSERT_TRUE(measured.ok()) << measured.status().message();
        EXPECT_TRUE(*measured > 0 && std::isfinite(*measured)) << optimizer << " " << wire;
      }
    }
  }
}

// The job that is predicted is the one that runs: how far its workers go, how fast each computes, what waits for what.
TEST_F(ChooseSchedule, PredictsTheModelOfSynchronisationTheSpeedsAndClipping) {
  give(settings_, "slice", "1000000");
  give(settings_, "merge", "0");
  give(settings_, "return", "broadcast");
  const auto seconds = [&] { return choose()["predicted"]["seconds"].get<double>(); };
  const double alike = seconds();
  give(settings_, "clip-norm", "1");
  EXPECT_GT(seconds(), alike) << "all values wait for the last gradient";
  give(settings_, "clip-norm", "0");
  give(settings_, "speed", "1,1,1,0.1");
  const double slowest = seconds();
  EXPECT_GT(slowest, 2 * alike);
  give(settings_, "sync", "ssp");
  EXPECT_NEAR(seconds(), slowest, 0.1 * slowest) << "in the end as fast as the slowest";
  give(settings_, "sync", "asp");
  EXPECT_LT(seconds(), 0.5 * slowest) << "nobody waits for the slow worker";
  EXPECT_EQ(choose()["predicted"]["lower_bound"], Json(nullptr));
}

TEST_F(ChooseSchedule, FallsBackToTheFormulaAndSaysWhy) {
  const auto why = [&](const runtime::Gathering& gathering = {.both = 4, .link = kLink}) {
    const Json tuned = choose(gathering);
    EXPECT_EQ(tuned["by"], "formula");
    EXPECT_TRUE(tuned["predicted"].is_null());
    return tuned["why"].get<std::string>();
  };
  std::ofstream(folder_ / "table.json") << R"({"layers":[{"name":"a","parameters":5,"forward_s":0,"backward_s":0}]})";
  EXPECT_THAT(why(), HasSubstr("is not the same file here as where the workers are"));
  settings_ = {};
  EXPECT_THAT(why(), HasSubstr("how long the layers of lenet compute was not measured"));
  const Json assumed = choose({.both = 0, .link = std::nullopt});
  EXPECT_EQ(assumed["measured"], false);
  EXPECT_EQ(assumed["bandwidth"], 125e6);
  settings_.schedule.name = "p3";
  EXPECT_TRUE(choose().is_null());
}

TEST(Choice, SaysHowFarAMeasuredLinkIsToBeTrusted) {
  EXPECT_EQ(how_measured({.start_up = 1e-5, .bandwidth = {1e8}, .residual = 0.3}), "measured before the start");
  EXPECT_EQ(how_measured({.start_up = 1e-5, .bandwidth = {1e8}, .residual = 0.31}),
            "measured before the start, its times 31 % off these: was something else running?");
  EXPECT_EQ(how_measured({.start_up = 0, .bandwidth = {1e8}, .residual = 1}), "measured before the start, by its largest message");
}

}  // namespace
}  // namespace paceline::tuning
