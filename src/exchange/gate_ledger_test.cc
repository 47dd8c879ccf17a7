#include "exchange/gate_ledger.h"

#include <deque>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing_jobs.h"

namespace paceline::exchange {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Complete = GateLedger::Complete;

std::shared_ptr<const job::Plan> plan_of(const std::vector<std::vector<std::int64_t>>& sizes, scheduling::Cut cut,
                                         std::int32_t servers = 1, Iteration first = 1) {
  job::PlanOptions options;
  options.workers = 3;
  options.servers = servers;
  options.schedule = scheduling::p3();
  options.schedule.cut = cut;
  options.first = first;
  return job::Plan::make(job::testing::table_of(sizes), options).value();
}

void initial_values(GateLedger& gates) {
  for (std::uint32_t unit = 0; unit < gates.plan().units().units.size(); ++unit) gates.on_value(unit);
}

TEST(GateLedger, AUnitIsCompleteWithTheLastOfItsTensorsAndSaysWhichHaveNoGradient) {
  scheduling::Cut cut = scheduling::whole_tensors();
  cut.merge = 10;
  GateLedger gates(plan_of({{2, 2}, {2}}, cut), Rank{1}, GateLedger::Rule::kOwnUnits);
  ASSERT_EQ(gates.plan().units().units.size(), 1U);
  initial_values(gates);
  std::vector<Complete> complete;
  ASSERT_TRUE(gates.on_gradient(2, complete).ok());
  ASSERT_TRUE(gates.on_gradient(0, complete).ok());
  EXPECT_THAT(complete, ElementsAre());
  const std::vector<std::uint32_t> unused = {1};
  ASSERT_TRUE(gates.on_backward_done(1, unused, complete).ok());
  EXPECT_THAT(complete, ElementsAre(Complete{0, 0b10}));
}

TEST(GateLedger, AGradientThatComesIsClaimedUntilItIsToldOrWithdrawn) {
  GateLedger gates(plan_of({{2}, {2}}, scheduling::whole_tensors()), Rank{0}, GateLedger::Rule::kOwnUnits);
  initial_values(gates);
  std::vector<Complete> complete;
  const std::vector<std::uint32_t> both = {0, 1}, other = {1};
  ASSERT_TRUE(gates.begin_gradient(0).ok());
  EXPECT_TRUE(gates.in_backward() && !gates.begun());
  EXPECT_THAT(gates.begin_gradient(0).message(), HasSubstr("came twice in iteration 1"));
  EXPECT_THAT(gates.on_backward_done(1, both, complete).message(), HasSubstr("has a gradient"));
  EXPECT_THAT(gates.on_backward_done(1, other, complete).message(), HasSubstr("has neither a gradient"));
  gates.withdraw_gradient(0);
  EXPECT_FALSE(gates.in_backward());
  ASSERT_TRUE(gates.begin_gradient(0).ok());
  ASSERT_TRUE(gates.on_gradient(0, complete).ok());
  EXPECT_TRUE(gates.in_backward() && gates.begun());
  gates.withdraw_gradient(0);  // which was told meanwhile
  EXPECT_THAT(gates.begin_gradient(0).message(), HasSubstr("came twice in iteration 1"));
  ASSERT_TRUE(gates.on_backward_done(1, other, complete).ok());
  for (const Complete& unit : complete) gates.on_value(unit.unit);
  gates.next_iteration();
  EXPECT_FALSE(gates.in_backward());
}

TEST(GateLedger, AGradientComesAfterSomebodyHasWaitedForTheValuesOfItsLayer) {
  GateLedger gates(plan_of({{2}, {2}}, scheduling::whole_tensors()), Rank{0}, GateLedger::Rule::kOwnUnits);
  initial_values(gates);
  std::vector<Complete> complete;
  for (const std::uint32_t tensor : {0, 1}) {
    ASSERT_TRUE(gates.begin_gradient(tensor).ok()) << "the initial values were waited for";
    ASSERT_TRUE(gates.on_gradient(tensor, complete).ok());
  }
  ASSERT_TRUE(gates.on_backward_done(1, {}, complete).ok());
  gates.next_iteration();
  initial_values(gates);
  EXPECT_THAT(gates.begin_gradient(1).message(), HasSubstr("call paceline_wait_layer for its layer first"));
  gates.on_waited(Layer{1});
  EXPECT_TRUE(gates.begin_gradient(1).ok());
  EXPECT_FALSE(gates.begin_gradient(0).ok());
  gates.on_waited(std::nullopt);
  EXPECT_TRUE(gates.begin_gradient(0).ok());
}

TEST(GateLedger, ARefusedEndOfBackwardChangesNothing) {
  GateLedger gates(plan_of({{2}, {2}, {2}}, scheduling::whole_tensors()), Rank{0}, GateLedger::Rule::kOwnUnits);
  initial_values(gates);
  std::vector<Complete> complete;
  ASSERT_TRUE(gates.on_gradient(2, complete).ok());
  const auto refused = [&](std::vector<std::uint32_t> unused, const char* part) {
    std::vector<Complete> none;
    EXPECT_THAT(gates.on_backward_done(1, unused, none).message(), HasSubstr(part));
    EXPECT_THAT(none, ElementsAre());
  };
  refused({0, 0}, "tensor 0 cannot be unused in iteration 1: \"layer0.tensor0\" is called so twice");
  refused({0, 2}, "tensor 2 cannot be unused in iteration 1: \"layer2.tensor0\" has a gradient");
  refused({0, 9}, "tensor 9 cannot be unused in iteration 1; the model has 3");
  refused({0}, "tensor 1 \"layer1.tensor0\" has neither a gradient nor is it called unused");
  const std::vector<std::uint32_t> right = {1, 0};
  std::vector<Complete> rest;
  ASSERT_TRUE(gates.on_backward_done(1, right, rest).ok()) << "names of refused calls are forgotten";
  EXPECT_THAT(rest, ElementsAre(Complete{1, 1}, Complete{0, 1}));
}

// A model of many small tensors of which most have no gradient, as with sparsely used experts: were each looked for among all, this
// would take hours.
TEST(GateLedger, EndsABackwardWithHundredsOfThousandsOfUnusedTensors) {
  constexpr std::uint32_t kTensors = 400'000;
  std::vector<std::int64_t> sizes(kTensors, 1);
  scheduling::Cut cut = scheduling::whole_tensors();
  GateLedger gates(plan_of({sizes}, cut), Rank{0}, GateLedger::Rule::kOwnUnits);
  initial_values(gates);
  std::vector<std::uint32_t> unused;
  for (std::uint32_t tensor = 0; tensor < kTensors; ++tensor) unused.push_back(tensor);
  std::vector<Complete> complete;
  ASSERT_TRUE(gates.on_backward_done(1, unused, complete).ok());
  EXPECT_EQ(complete.size(), kTensors);
}

TEST(GateLedger, AGradientIsFreeWhenEverythingThatReadsItIsOver) {
  GateLedger gates(plan_of({{2}}, scheduling::whole_tensors()), Rank{0}, GateLedger::Rule::kOwnUnits);
  initial_values(gates);
  std::vector<Complete> complete;
  for (const Iteration iteration : {1, 2}) {  // a caller that does not wait for its gradients to be free
    ASSERT_TRUE(gates.on_gradient(0, complete).ok());
    ASSERT_TRUE(gates.on_backward_done(iteration, {}, complete).ok());
    gates.next_iteration();
    gates.on_value(0);
  }
  gates.on_free(0);
  EXPECT_FALSE(gates.free(Layer{0}));
  EXPECT_EQ(gates.undelivered(), 0U);
  gates.on_free(0);
  EXPECT_TRUE(gates.free(Layer{0}) && gates.free());
}

// What anybody believes: sets of what has come, looked through anew with every question.
struct Twin {
  const job::Plan& plan;
  GateLedger::Rule rule;
  Iteration current;
  std::map<std::uint32_t, bool> told = {};         // tensors of the current iteration: whether they have a gradient
  std::map<std::uint32_t, Iteration> values = {};  // of units: the newest
  std::multiset<std::uint32_t> read = {};          // units whose gradients are being read

  bool whole(std::uint32_t unit) const {
    const auto parts = plan.units().parts_of(plan.units().units[unit]);
    return std::ranges::all_of(parts, [&](const scheduling::Part& part) { return told.contains(part.tensor); });
  }
  bool used(std::uint32_t unit) const {
    const auto parts = plan.units().parts_of(plan.units().units[unit]);
    return std::ranges::any_of(parts, [&](const scheduling::Part& part) { return told.at(part.tensor); });
  }
  bool in(std::uint32_t unit, Layer layer) const {
    const auto parts = plan.units().parts_of(plan.units().units[unit]);
    return std::ranges::any_of(parts, [&](const auto& part) { return plan.table().tensors[part.tensor].layer == layer; });
  }
  bool open(Layer layer) const {
    return std::ranges::all_of(plan.units().units, [&](const scheduling::Unit& unit) {
      const bool counts = rule == GateLedger::Rule::kEverything || in(unit.id, layer);
      return !counts || values.at(unit.id) >= current - 1;
    });
  }
  bool all_open() const {
    return std::ranges::all_of(values, [&](const auto& value) { return value.second >= current - 1; });
  }
  bool free(Layer layer) const {
    return std::ranges::none_of(read, [&](std::uint32_t unit) { return in(unit, layer); });
  }
  bool free_of(std::uint32_t tensor) const {
    return std::ranges::none_of(read, [&](std::uint32_t unit) {
      const auto parts = plan.units().parts_of(plan.units().units[unit]);
      return std::ranges::any_of(parts, [&](const scheduling::Part& part) { return part.tensor == tensor; });
    });
  }
};

class RandomWorker {
 public:
  explicit RandomWorker(std::uint32_t seed) : random_(seed) {
    std::vector<std::vector<std::int64_t>> sizes;
    for (std::uint32_t layer = 0; layer < 1 + draw(4); ++layer) {
      sizes.emplace_back();
      for (std::uint32_t tensor = 0; tensor < 1 + draw(3); ++tensor) sizes.back().push_back(draw(5) == 0 ? 0 : 1 + draw(9));
    }
    scheduling::Cut cut = draw(2) == 0 ? scheduling::whole_tensors() : scheduling::slices_of(1 + draw(6));
    if (draw(2) == 0) cut.merge = draw(12);
    plan_ = plan_of(sizes, cut, static_cast<std::int32_t>(1 + draw(3)), 1 + draw(3));
    const auto rule = draw(2) == 0 ? GateLedger::Rule::kOwnUnits : GateLedger::Rule::kEverything;
    gates_.emplace(plan_, Rank{static_cast<std::int32_t>(draw(3))}, rule);
    twin_.emplace(Twin{*plan_, rule, gates_->current()});
    for (const scheduling::Unit& unit : plan_->units().units) {
      twin_->values[unit.id] = gates_->current() - 2;
      due_.push_back(unit.id);
    }
  }

  void step() {
    if (!due_.empty() && draw(2) == 0) return value_comes();
    if (!twin_->read.empty() && draw(3) == 0) return gradient_is_free();
    const std::uint32_t tensor = draw(static_cast<std::uint32_t>(plan_->table().tensors.size()));
    if (draw(4) != 0) return tell(tensor);
    if (twin_->all_open()) end_backward();
  }

  void compare() const {
    EXPECT_EQ(gates_->all_open(gates_->current()), twin_->all_open());
    EXPECT_EQ(gates_->free(), twin_->read.empty());
    EXPECT_EQ(gates_->undelivered().has_value(), !twin_->read.empty());
    EXPECT_EQ(gates_->begun(), !twin_->told.empty());
    EXPECT_EQ(gates_->missing(std::nullopt).has_value(), !twin_->all_open());
    for (Layer layer{0}; layer.index < plan_->layers(); ++layer.index) {
      EXPECT_EQ(gates_->open(layer, gates_->current()), twin_->open(layer)) << layer.index;
      EXPECT_EQ(gates_->missing(layer).has_value(), !twin_->open(layer)) << layer.index;
      EXPECT_EQ(gates_->free(layer), twin_->free(layer)) << layer.index;
    }
    for (std::uint32_t tensor = 0; tensor < plan_->table().tensors.size(); ++tensor)
      EXPECT_EQ(gates_->free_of(tensor), twin_->free_of(tensor)) << tensor;
  }
  Iteration iterations() const { return gates_->current() - plan_->options().first; }

 private:
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  void value_comes() {
    const std::uint32_t which = draw(static_cast<std::uint32_t>(due_.size()));
    const std::uint32_t unit = due_[which];
    due_.erase(due_.begin() + which);
    gates_->on_value(unit);
    ++twin_->values[unit];
  }
  void gradient_is_free() {
    const std::uint32_t unit = *twin_->read.begin();
    gates_->on_free(unit);
    twin_->read.erase(twin_->read.begin());
  }
  void tell(std::uint32_t tensor) {
    const bool fits = !twin_->told.contains(tensor);
    std::vector<Complete> complete;
    EXPECT_EQ(gates_->on_gradient(tensor, complete).ok(), fits);
    if (!fits) {
      EXPECT_THAT(complete, ElementsAre());
      return;
    }
    twin_->told[tensor] = true;
    take(complete);
  }
  void end_backward() {
    std::vector<std::uint32_t> unused;
    for (std::uint32_t tensor = 0; tensor < plan_->table().tensors.size(); ++tensor) {
      if (!twin_->told.contains(tensor)) unused.push_back(tensor);
    }
    std::vector<Complete> complete;
    if (!unused.empty() && !plan_->units().of_tensor[unused.back()].empty()) {
      EXPECT_FALSE(gates_->on_backward_done(gates_->current(), std::span(unused).first(unused.size() - 1), complete).ok());
    }
    ASSERT_TRUE(gates_->on_backward_done(gates_->current(), unused, complete).ok());
    for (const std::uint32_t tensor : unused) twin_->told[tensor] = false;
    take(complete);
    gates_->next_iteration();
    ++twin_->current;
    twin_->told.clear();
    whole_.clear();
  }
  // Exactly the units that are whole now and were not before.
  void take(const std::vector<Complete>& complete) {
    for (const auto& [unit, unused_parts] : complete) {
      EXPECT_TRUE(whole_.insert(unit).second) << "unit " << unit << " twice";
      EXPECT_EQ(unused_parts != scheduling::all_parts(plan_->units().units[unit]), twin_->used(unit));
      if (twin_->used(unit)) twin_->read.insert(unit);
      due_.push_back(unit);
    }
    for (const scheduling::Unit& unit : plan_->units().units) EXPECT_EQ(whole_.contains(unit.id), twin_->whole(unit.id)) << unit.id;
  }

  std::mt19937 random_;
  std::shared_ptr<const job::Plan> plan_;
  std::optional<GateLedger> gates_;
  std::optional<Twin> twin_;
  std::vector<std::uint32_t> due_;  // units whose next value may come
  std::set<std::uint32_t> whole_;   // units called complete in the current iteration
};

TEST(GateLedger, SaysWhatALookAtEverythingSays) {
  Iteration iterations = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomWorker worker(seed);
    for (int step = 0; step < 150; ++step) {
      worker.step();
      worker.compare();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    iterations += worker.iterations();
  }
  EXPECT_GT(iterations, 1000);
}

}  // namespace
}  // namespace paceline::exchange
