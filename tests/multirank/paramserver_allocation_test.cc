// Once warm, pushes, updates and values allocate nothing, on all threads together: training threads, loops of workers and of
// servers. A program of its own, because it counts every operator new.
#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <numeric>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/counting_new.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver_job.h"

namespace paceline::paramserver::testing {
namespace {

using transport::testing::allocations;

constexpr Iteration kWarm = 150, kWindow = 60;
constexpr std::size_t kWindows = 5;
constexpr std::int32_t kWorkers = 3;

struct Case {
  const char* schedule;
  sync::SyncKind sync;
  job::WireKind wire = job::WireKind::kFloat32;
};

class ParameterServerAllocation : public ::testing::TestWithParam<std::tuple<transport::testing::MakeBackend, Case>> {};

TEST_P(ParameterServerAllocation, ThousandsOfPushesCostNoneOnceWarm) {
  const auto& [make_backend, wanted] = GetParam();
  JobSetting setting;
  setting.table = table_of({{300, 20}, {700, 10}, {100, 30}, {400, 10}});
  setting.options.workers = kWorkers;
  setting.options.servers = 2;
  setting.options.schedule = *scheduling::parse_schedule_name(wanted.schedule);
  setting.options.sync.kind = wanted.sync;
  setting.options.wire.kind = wanted.wire;
  if (wanted.wire == job::WireKind::kDropping) setting.options.wire.share = 0.1;
  setting.options.update.optimizer.kind = tensor::OptimizerKind::kAdam;
  setting.iterations = kWarm + kWindow * static_cast<Iteration>(kWindows) + 10;
  Job job(make_backend(), setting);
  std::array<std::uint64_t, kWindows + 1> at{};
  std::atomic<Iteration> begun = 0;
  // All workers' iterations are counted: without BSP a fast worker does more of them and a slow one may never reach the last
  // window.
  job.train([&](std::int32_t, Iteration) {
    const Iteration since_warm = begun++ - kWorkers * kWarm;
    if (since_warm < 0 || since_warm % (kWorkers * kWindow) != 0) return;
    at.at(static_cast<std::size_t>(since_warm / (kWorkers * kWindow))) = allocations();
  });
  for (auto& worker : job.workers) ASSERT_TRUE(worker->failure.ok()) << worker->failure.message();
  const auto pushes = static_cast<std::uint64_t>(kWindow) * kWorkers * job.plan->units().units.size();
  EXPECT_GE(pushes, 2000U);
  ASSERT_GT(at[0], 0U) << "the counter counts";
  std::vector<std::uint64_t> made;
  for (std::size_t i = 0; i < kWindows; ++i) made.push_back(at[i + 1] - at[i]);
  std::cout << "allocations in " << kWindows << " windows of " << pushes
            << " pushes and as many values: " << fmt::format("{}", fmt::join(made, ", ")) << "\n";
  // Which is the most that was ever in use at a time is a matter of timing: a pool or a queue may still grow, ever more rarely.
  // What a message costs would show thousands of times. Without BSP, values are also copied when an update finds them being sent.
  const std::uint64_t growth = wanted.sync == sync::SyncKind::kBsp ? 10 : 50;
  if (wanted.sync == sync::SyncKind::kBsp) {
    EXPECT_EQ(std::ranges::min(made), 0U);
  }
  EXPECT_LE(std::accumulate(made.begin(), made.end(), std::uint64_t{0}), growth);
}

// A simulation of a thousand workers of a network with twenty thousand units has this memory twenty million times.
TEST(SimulatedWorker, HasAtMost64BytesForAUnit) {
  constexpr std::uint32_t kUnits = 20'000;
  for (const char* name : {"p3", "layer-wise", "slicing"}) {
    job::PlanOptions options;
    options.schedule = *scheduling::parse_schedule_name(name);
    options.schedule.cut = scheduling::slices_of(10);
    const auto plan = job::Plan::make(table_of({{10 * kUnits}}), options).value();
    ASSERT_EQ(plan->units().units.size(), kUnits);
    const std::uint64_t before = transport::testing::allocated_bytes();
    exchange::GateLedger gates(plan, Rank{0}, gate_rule(options.schedule));
    const PushLedger ledger(gates, Rank{0});
    const std::uint64_t bytes = transport::testing::allocated_bytes() - before;
    EXPECT_GT(bytes, 24 * kUnits) << name;
    EXPECT_LE(bytes, 64 * kUnits) << name;
  }
}

std::string name_of(const ::testing::TestParamInfo<ParameterServerAllocation::ParamType>& info) {
  const auto& [make_backend, wanted] = info.param;
  const bool by_default = std::string(wanted.schedule) == "default";
  const std::string kind(sync::to_text(wanted.sync));
  std::string wire = wanted.wire == job::WireKind::kFloat32 ? "" : "_" + job::WireOptions{.kind = wanted.wire}.text();
  wire = wire.substr(0, wire.find(':'));
  return make_backend().name + (by_default ? "_default_" : "_layer_wise_") + kind + wire;
}

INSTANTIATE_TEST_SUITE_P(
    All, ParameterServerAllocation,
    ::testing::Combine(::testing::Values(&transport::testing::inproc_backend, &transport::testing::tcp_backend),
                       ::testing::Values(Case{"default", sync::SyncKind::kBsp}, Case{"layer-wise", sync::SyncKind::kBsp},
                                         Case{"layer-wise", sync::SyncKind::kAsp}, Case{"layer-wise", sync::SyncKind::kSsp},
                                         Case{"default", sync::SyncKind::kBsp, job::WireKind::kBFloat16},
                                         Case{"layer-wise", sync::SyncKind::kBsp, job::WireKind::kFloat16},
                                         Case{"layer-wise", sync::SyncKind::kBsp, job::WireKind::kDropping})),
    name_of);

}  // namespace
}  // namespace paceline::paramserver::testing
