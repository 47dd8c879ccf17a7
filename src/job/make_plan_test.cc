#include "job/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace paceline::job {
namespace {

using job::testing::give;
using job::testing::spec_of;
using ::testing::HasSubstr;

TEST(MakeJobPlan, FollowsTheSpecification) {
  wire::TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {40}, .layer = {0}});
  table.layers = {"fc"};
  job::JobSpec spec = spec_of({{"optimizer", "momentum"},
                               {"momentum", "0.75"},
                               {"weight-decay", "0.5"},
                               {"learning-rate", "0.25"},
                               {"sync", "ssp"},
                               {"staleness", "4"},
                               {"window", "auto:4ms"},
                               {"ordered-places", "window,server-ingress"},
                               {"wire", "float16"},
                               {"loss-scale", "8"}});
  const auto plan = make_plan(spec, table, 3, 2, 11);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto& options = (*plan)->options();
  EXPECT_EQ(options.workers, 3);
  EXPECT_EQ(options.servers, 2);
  EXPECT_EQ(options.first, 11);
  EXPECT_EQ(options.sync.kind, sync::SyncKind::kSsp);
  EXPECT_EQ(options.sync.staleness, 4);
  EXPECT_EQ(options.wire, (job::WireOptions{.kind = job::WireKind::kFloat16, .loss_scale = 8}));
  EXPECT_EQ((*plan)->payload_bytes(0), static_cast<std::size_t>((*plan)->units().units[0].elements) * 2);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).window.link_time, std::chrono::milliseconds(4));
  EXPECT_EQ(scheduling::egress_rules(options.schedule).window.spread.count, 6 * 4 * options.schedule.cut.elements);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).pushes, scheduling::Order::kFirstInFirstOut);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).replies, scheduling::Order::kFirstInFirstOut);
  EXPECT_EQ(scheduling::ingress_order(options.schedule), scheduling::Order::kByLayer);
  EXPECT_EQ(scheduling::to_text(options.schedule.places), "server-ingress,window");
  give(spec, "window", "auto");
  give(spec, "ordered-places", "server-egress");
  const auto without_window = scheduling::egress_rules((*make_plan(spec, table, 3, 2, 1))->options().schedule);
  EXPECT_EQ(without_window.window, scheduling::fixed_window(scheduling::kUnbounded));
  EXPECT_EQ((*plan)->optimizer_of(0).kind, tensor::OptimizerKind::kMomentum);
  EXPECT_EQ((*plan)->optimizer_of(0).momentum, 0.75);
  EXPECT_EQ((*plan)->optimizer_of(0).weight_decay, 0.5);
  EXPECT_EQ((*plan)->learning_rate_of(0, 11), 0.25);
  EXPECT_THAT(make_plan(spec, table, 0, 2, 1).status().message(), HasSubstr("--workers 0"));
  spec.update.clip_norm = 1;
  EXPECT_THAT(make_plan(spec, table, 3, 2, 1).status().message(), HasSubstr("--sync bsp"));
}

TEST(MakeJobPlan, RefusesAUnitThatNoMessageCarries) {
  constexpr std::int64_t kMost = std::int64_t{1} << 34;
  const auto planned = [](std::int64_t elements, std::initializer_list<std::pair<const char*, std::string>> settings) {
    wire::TensorTable table;
    table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {elements}, .layer = {0}});
    table.layers = {"fc"};
    return make_plan(spec_of(settings), table, 2, 1, 1).status();
  };
  EXPECT_TRUE(planned(kMost, {{"schedule", "layer-wise"}}).ok());
  const Status refused = planned(kMost + 1, {{"schedule", "layer-wise"}});
  EXPECT_EQ(refused.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(refused.message(),
              HasSubstr("17179869185 elements from tensor \"w\" on would be one message; at most 17179869184, 64 GiB"));
  EXPECT_THAT(refused.message(), HasSubstr("smaller slices"));
  EXPECT_TRUE(planned(kMost + 1, {{"schedule", "p3"}, {"slice", "100000000"}}).ok());
  EXPECT_THAT(planned(kMost, {{"collective", "loop3"}}).message(), HasSubstr("make several tensors of it"));
}

TEST(MakeJobPlan, DividesSlicesByTheScaleOfAReplay) {
  wire::TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {25'000}, .layer = {0}});
  table.layers = {"fc"};
  const job::JobSpec spec = spec_of({{"model", "replay:a/b.json"}, {"schedule", "p3"}, {"scale", "20"}});
  EXPECT_EQ((*make_plan(spec, table, 1, 1, 1))->units().units.size(), 10u) << "slices of 2500";
}

}  // namespace
}  // namespace paceline::job
