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

  Server::Place begin(std::int32_t from, const wire::Message& message, std::size_t bytes_of_it) {
    return wire::deliver_begin<Server::Place>(*core, Rank{from}, message, std::uint64_t{bytes_of_it}).value();
  }
  Status on(std::int32_t from, const wire::Message& message) {
    return note(wire::deliver(*core, Rank{from}, message, TimePoint{}, left).value());
  }
  // With a payload.
  Status receive(std::int32_t from, const wire::Message& message, std::span<const std::byte> payload) {
    const auto place = begin(from, message, payload.size());
    if (!place.ok()) return place.status();
    std::ranges::copy(payload, place->begin());
    return on(from, message);
  }
  Status leave(std::int32_t worker) { return note(core->on_left(Rank{worker}, TimePoint{}, left)); }

  Status initial(std::uint32_t unit, float value = 0) {
    const std::vector<float> values(bytes(unit) / 4, value);
    return receive(0, wire::Initial{unit, plan->options().first - 1}, std::as_bytes(std::span(values)));
  }
  void start() {
    for (const std::uint32_t unit : plan->units().of_server[static_cast<std::size_t>(core->rank().value)])
      ASSERT_TRUE(initial(unit).ok());
    deliver();
  }
  Status push(std::int32_t worker, std::uint32_t unit, Iteration iteration, const std::vector<float>& gradient) {
    return receive(worker, wire::Push{unit, 0, iteration}, std::as_bytes(std::span(gradient)));
  }
  Status pull(std::int32_t worker, std::uint32_t unit, std::uint32_t last, Iteration iteration) {
    return on(worker, wire::Pull{unit, last, iteration});
  }
  // What has left has arrived, and is forgotten.
  void deliver() {
    for (const Leaving& one : left) {
      const auto kind = wire::kind_of(one.message);
      if (!one.sent.payload.empty() && kind != wire::SquareSum::kKind) core->on_delivered(one.sent.ticket);
    }
    forget();
  }
  void forget() {
    left.clear();
    lines_.clear();
    noted_ = 0;
  }
  // "worker<-unit@iteration", and others by name, in order.
  std::vector<std::string> trace() const { return lines_; }
  std::vector<float> value(std::uint32_t unit) const {
    const auto value = core->export_part(unit).value;
    return {value.begin(), value.end()};
  }

  std::shared_ptr<const job::Plan> plan;
  std::unique_ptr<Server> core;
  std::vector<Leaving> left;

 private:
  Status note(Status status) {
    if (const auto skipped = core->take_skipped()) lines_.push_back(fmt::format("skipped@{}", skipped->first));
    if (const auto complete = core->take_complete()) lines_.push_back(fmt::format("complete@{}", *complete));
    for (; noted_ < left.size(); ++noted_) {
      const auto& [to, message, sent] = left[noted_];
      if (const auto* value = std::get_if<wire::Value>(&message))
        lines_.push_back(fmt::format("{}<-{}@{}", to.value, value->unit, value->iteration));
      if (const auto* values = std::get_if<wire::Values>(&message))
        lines_.push_back(fmt::format("{}<-{}..{}@{}", to.value, values->unit, values->last, values->iteration));
      if (const auto* notify = std::get_if<wire::Notify>(&message))
        lines_.push_back(fmt::format("{}<-notify {}@{}", to.value, notify->unit, notify->iteration));
      if (const auto* part = std::get_if<wire::SquareSum>(&message))
        lines_.push_back(fmt::format("squares->{}@{}", to.value, part->iteration));
      if (const auto* part = std::get_if<wire::VerdictPart>(&message))
        lines_.push_back(fmt::format("{}<-verdict@{}", to.value, part->iteration));
    }
    return status;
  }

  std::size_t noted_ = 0;  // of `left`
  std::vector<std::string> lines_;
};

using Lines = std::vector<std::string>;

}  // namespace paceline::paramserver::testing
