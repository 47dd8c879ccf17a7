// One server, with the workers' side played by a test.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"
#include "paramserver/core/server.h"

namespace paceline::paramserver::testing {

using namespace job::testing;

struct Setting {
  std::int32_t workers = 3, servers = 1;
  scheduling::Return back = scheduling::Return::kBroadcast;
  job::UpdateOptions update{.learning_rate = {.base = 1.0}};
  sync::SyncOptions sync;
  job::WireOptions wire = {};
  Iteration first = 1;
  std::vector<std::vector<std::int64_t>> layers = {{2}, {3}};
};

// One server with its worker-side played by the test.
class Bench {
 public:
  explicit Bench(const Setting& setting, std::int32_t server = 0) {
    job::PlanOptions options;
    options.workers = setting.workers;
    options.servers = setting.servers;
    options.schedule.cut = scheduling::whole_tensors();
    options.schedule.back = setting.back;
    options.update = setting.update;
    options.sync = setting.sync;
    options.wire = setting.wire;
    options.first = setting.first;
    plan = *job::Plan::make(testing::table_of(setting.layers), options);
    core = std::move(Server::make(plan, Rank{server})).value();
  }

  std::size_t bytes(std::uint32_t unit) const { return static_cast<std::size_t>(plan->units().units[unit].elements) * 4; }

  Status initial(std::uint32_t unit, float value = 0) {
    auto place = core->place_for_initial(Rank{0}, unit, plan->options().first - 1, bytes(unit));
    if (!place.ok()) return place.status();
    std::ranges::fill(*place, value);
    return core->on_initial(Rank{0}, unit, plan->options().first - 1, TimePoint{}, actions);
  }
  void start() {
    for (const std::uint32_t unit : plan->units().of_server[static_cast<std::size_t>(core->rank().value)])
      ASSERT_TRUE(initial(unit).ok());
    deliver();
  }
  Status push(std::int32_t worker, std::uint32_t unit, Iteration iteration, std::vector<float> gradient) {
    auto place = core->place_for_push(Rank{worker}, unit, iteration, gradient.size() * 4);
    if (!place.ok()) return place.status();
    std::ranges::copy(gradient, place->begin());
    return core->on_push(Rank{worker}, unit, iteration, 0, TimePoint{}, actions);
  }
  // Forgets the actions; their values have arrived.
  void deliver() {
    for (const ServerAction& action : actions) {
      if (action.kind == ServerAction::Kind::kSendValue || action.kind == ServerAction::Kind::kSendValues ||
          action.kind == ServerAction::Kind::kSendVerdict)
        core->on_delivered(action.ticket);
    }
    actions.clear();
  }
  // "worker<-unit@label", and others by name, in order.
  std::vector<std::string> trace() const {
    std::vector<std::string> lines;
    for (const ServerAction& action : actions) {
      switch (action.kind) {
        case ServerAction::Kind::kSendValue:
          lines.push_back(fmt::format("{}<-{}@{}", action.to.value, action.unit, action.iteration));
          break;
        case ServerAction::Kind::kSendValues:
          lines.push_back(fmt::format("{}<-{}..{}@{}", action.to.value, action.unit, action.last, action.iteration));
          break;
        case ServerAction::Kind::kNotify:
          lines.push_back(fmt::format("{}<-notify {}@{}", action.to.value, action.unit, action.iteration));
          break;
        case ServerAction::Kind::kSendSquareSum:
          lines.push_back(fmt::format("squares->{}@{}", action.to.value, action.iteration));
          break;
        case ServerAction::Kind::kIterationComplete:
          lines.push_back(fmt::format("complete@{}", action.iteration));
          break;
        case ServerAction::Kind::kSendVerdict:
          lines.push_back(fmt::format("{}<-verdict@{}", action.to.value, action.iteration));
          break;
        case ServerAction::Kind::kMiniBatch:  // of tests of their own
        case ServerAction::Kind::kSendState:
          break;
        case ServerAction::Kind::kSkipped:
          lines.push_back(fmt::format("skipped@{}", action.iteration));
          break;
        case ServerAction::Kind::kStop:
          lines.push_back(fmt::format("stop@{}", action.iteration));
          break;
      }
    }
    return lines;
  }
  std::vector<float> value(std::uint32_t unit) const {
    const auto value = core->export_part(unit).value;
    return {value.begin(), value.end()};
  }

  std::shared_ptr<const job::Plan> plan;
  std::unique_ptr<Server> core;
  std::vector<ServerAction> actions;
};

using Lines = std::vector<std::string>;

}  // namespace paceline::paramserver::testing
