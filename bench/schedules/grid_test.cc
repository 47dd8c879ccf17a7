#include "bench/schedules/grid.h"

#include <set>

#include <gtest/gtest.h>

namespace paceline::bench {
namespace {

GridOptions two_by_two() {
  return {.models = {"a", "b"},
          .stands_for = {1e9, 20e9},
          .hosts = {2, 4},
          .contestants = {"p3", "tuned", "ddp"},
          .slices = {"25000"},
          .turns = 3};
}

TEST(Grid, HasEveryCombinationOnceAndEveryKeyOnce) {
  const auto cells = grid(two_by_two());
  EXPECT_EQ(cells.size(), 2U * 2 * 2 * 4 * 3);
  std::set<std::string> keys;
  for (const Cell& cell : cells) EXPECT_TRUE(keys.insert(cell.key()).second) << cell.key();
}

TEST(Grid, EachTurnBeginsWithAnotherContestant) {
  const auto cells = grid(two_by_two());
  EXPECT_EQ(cells[0].name(), "p3");
  EXPECT_EQ(cells[4].name(), "tuned");
  EXPECT_EQ(cells[8].name(), "ddp");
  EXPECT_EQ(cells[3].name(), "p3 --slice 25000");
}

TEST(Grid, ALoopIsNamedWithTheAlgorithmThatItRunsBy) {
  EXPECT_EQ(loop_of("loop3-overlap")->algorithm, "best");
  EXPECT_EQ(loop_of("loop3-overlap-be")->loop, "loop3-overlap");
  EXPECT_EQ(loop_of("loop3-overlap-be")->algorithm, "be");
  EXPECT_EQ(loop_of("loop1-mst")->loop, "loop1");
  for (const char* none : {"p3", "loop1-ring", "loop1-best", "loop4-lp", "loop2-", "loop", "-lp"})
    EXPECT_FALSE(loop_of(none)) << none;
  const auto names = loop_names();
  EXPECT_EQ(names.size(), 4U + 2 * 3 + 2 * 5) << "a reduce has three algorithms, an allreduce five";
  for (const std::string& name : names) EXPECT_TRUE(loop_of(name)) << name;
}

TEST(Grid, AScheduleIsNamedWithWhatItSendsOfEachParameter) {
  EXPECT_EQ(schedule_of("layer-wise").schedule, "layer-wise");
  EXPECT_EQ(schedule_of("layer-wise").wire, "float32");
  EXPECT_EQ(schedule_of("layer-wise-bfloat16").schedule, "layer-wise");
  EXPECT_EQ(schedule_of("p3-float16").wire, "float16");
  EXPECT_FALSE(schedule_of("p3").encrypted);
  EXPECT_TRUE(schedule_of("layer-wise-tls").encrypted);
  EXPECT_EQ(schedule_of("layer-wise-tls").schedule, "layer-wise");
  const replay::LayerTable table{.layers = {{.parameters = 1000, .forward = 0.5, .backward = 1}}};
  EXPECT_EQ(loads_of(table, "p3")[0].size, Bytes{4000});
  EXPECT_EQ(loads_of(table, "p3-bfloat16")[0].size, Bytes{2000}) << "the bound is that of half the bytes";
  EXPECT_EQ(loads_of(table, "ddp")[0].size, Bytes{4000});
}

TEST(Grid, APeerIsAProgramWithItsInterpreter) {
  for (const std::string& name : torch_names()) {
    ASSERT_TRUE(peer_of(name)) << name;
    EXPECT_EQ(peer_of(name)->interpreter, PeerContestant::Interpreter::kTorch);
  }
  EXPECT_EQ(peer_of("ddp")->script, "ddp_replay.py");
  EXPECT_EQ(peer_of("split")->script, "split_replay.py");
  EXPECT_EQ(peer_of("attach-clip")->script, "attach_replay.py");
  EXPECT_EQ(peer_of("attach-clip")->arguments, std::vector<std::string>{"--clip"});
  std::set<std::vector<std::string>> arguments;
  for (const std::string& name : mxnet_names()) {
    ASSERT_TRUE(peer_of(name)) << name;
    EXPECT_EQ(peer_of(name)->script, "mxnet_replay.py");
    EXPECT_EQ(peer_of(name)->interpreter, PeerContestant::Interpreter::kMxnet);
    EXPECT_TRUE(arguments.insert(peer_of(name)->arguments).second) << name;
    EXPECT_FALSE(loop_of(name));
    EXPECT_EQ(schedule_of(name).element_bytes, 4);
  }
  for (const char* none : {"p3", "loop1", "mxnet-p3-bounded-more", ""}) EXPECT_FALSE(peer_of(none)) << none;
}

TEST(Grid, NoLinkIsFasterThanOneGigabit) {
  for (const Cell& cell : grid(two_by_two())) EXPECT_LE(cell.link().value, 125e6) << cell.key();
  EXPECT_EQ(scale_for(10e9), 10);
  EXPECT_EQ(scale_for(20e9), 20);
  EXPECT_EQ(scale_for(40e9), 40);
}

TEST(Grid, SlowCellsHaveFewerIterations) {
  EXPECT_EQ(iterations_for(7.0, 15), 6);
  EXPECT_EQ(iterations_for(0.5, 15), 30);
  EXPECT_EQ(iterations_for(0.0, 15), 60);
}

}  // namespace
}  // namespace paceline::bench
