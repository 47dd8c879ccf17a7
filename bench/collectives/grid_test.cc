#include "bench/collectives/grid.h"

#include <set>

#include <gtest/gtest.h>

#include "bench/collectives/pattern.h"

namespace paceline::bench {
namespace {

CollectivesGrid grid_of(const std::vector<std::string>& names) {
  CollectivesGrid grid{.sizes = {Bytes{256'000'000}, Bytes{4096}}, .hosts = {4, 8}};
  for (const auto& name : names) grid.entries.push_back(entry_of(name).value());
  return grid;
}

TEST(CollectivesGrid, EveryHeatHasWhoCanRunItAndEveryKeyIsItsOwn) {
  const auto all = heats(grid_of(entry_names()));
  EXPECT_EQ(all.size(), 2U * 3 * 2);
  std::set<std::string> keys;
  for (const Heat& heat : all) {
    std::set<std::string> names;
    for (const Entry& entry : heat.entries) {
      names.insert(entry.name);
      EXPECT_TRUE(keys.insert(key_of(heat, entry)).second) << key_of(heat, entry);
    }
    EXPECT_TRUE(names.contains("paceline") && names.contains("gloo"));
    EXPECT_EQ(names.contains("paceline-ring"), heat.operation == "allreduce" && heat.size.count == 4096);
    EXPECT_EQ(names.contains("paceline-mst"), heat.size.count == 4096);
  }
  EXPECT_EQ(all[0].size.count, 4096);
  EXPECT_EQ(all[1].size.count, 256'000'000);
}

TEST(CollectivesGrid, HostsOfDifferentRatesAreAnotherEntry) {
  CollectivesGrid grid = grid_of({"paceline"});
  grid.hosts = {4};
  const std::string alike = key_of(heats(grid)[0], grid.entries[0]);
  EXPECT_NE(alike.find("4 hosts at 125000000 B/s"), std::string::npos) << alike;
  grid.rates = {{125e6}, {31.25e6}, {125e6}, {125e6}};
  const std::string uneven = key_of(heats(grid)[0], grid.entries[0]);
  EXPECT_NE(uneven.find("at 125000000,31250000,125000000,125000000 B/s"), std::string::npos) << uneven;
  grid.rates.assign(4, {125e6});
  EXPECT_EQ(key_of(heats(grid)[0], grid.entries[0]), alike);
  grid.rest = std::chrono::milliseconds(5);
  const std::string rested = key_of(heats(grid)[0], grid.entries[0]);
  EXPECT_NE(rested.find("B/s, rested 5.0 ms: paceline"), std::string::npos) << rested;
}

TEST(CollectivesGrid, ABlockIsAnotherEntryOfThoseThatSendBlocks) {
  CollectivesGrid grid = grid_of(entry_names());
  grid.operations = {"allreduce", "reduce-scatter", "barrier"};
  grid.sizes = {Bytes{4096}};
  const auto chosen = heats(grid);
  grid.block = Bytes{64'000};
  const auto asked = heats(grid);
  std::set<std::string> with_blocks;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    for (const Entry& entry : asked[i].entries) {
      const std::string key = key_of(asked[i], entry);
      if (key == key_of(chosen[i], entry)) continue;
      EXPECT_EQ(asked[i].operation, "allreduce") << key;
      EXPECT_NE(key.find("B/s, blocks of 64000 B: " + entry.name), std::string::npos) << key;
      with_blocks.insert(entry.name);
    }
  }
  EXPECT_EQ(with_blocks,
            (std::set<std::string>{"paceline", "paceline-spin", "paceline-lp", "paceline-alike", "paceline-alike-lp"}));
}

TEST(CollectivesGrid, ABarrierIsRunOnceAndPartsByWhoeverCan) {
  CollectivesGrid grid = grid_of(entry_names());
  grid.hosts = {3};
  grid.operations = {"reduce-scatter", "allgather", "barrier"};
  grid.sizes = {Bytes{1200}, Bytes{4096}};
  const auto all = heats(grid);
  ASSERT_EQ(all.size(), 2U + 2 + 1);
  EXPECT_EQ(all.back().size, Bytes{0});
  for (const Heat& heat : all) {
    const auto has = [&](const std::string& name) {
      return std::any_of(heat.entries.begin(), heat.entries.end(), [&](const Entry& entry) { return entry.name == name; });
    };
    EXPECT_TRUE(has("paceline") && has("paceline-spin") && has("openmpi"));
    EXPECT_FALSE(has("paceline-lp") || has("paceline-mst"));
    EXPECT_EQ(has("paceline-ring"), heat.operation != "barrier");
    EXPECT_EQ(has("paceline-direct"), heat.operation == "reduce-scatter");
    EXPECT_EQ(has("gloo"), heat.operation == "barrier" || heat.size.count == 1200) << "4096 bytes are no three equal parts";
  }
}

TEST(CollectivesGrid, ANameThatIsNoneIsRefusedWithTheNearest) {
  EXPECT_NE(entry_of("glo").status().message().find("'gloo'"), std::string::npos) << entry_of("glo").status().message();
}

TEST(CollectivesGrid, BoundsAndBandwidthsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bound_seconds("broadcast", std::vector<BytesPerSecond>(8, {100}), Bytes{1'000}), 10);
  EXPECT_DOUBLE_EQ(bound_seconds("allreduce", std::vector<BytesPerSecond>(4, {100}), Bytes{1'000}), 15);
  // A slow host has to take in and give away everything once, however the others share the rest.
  EXPECT_DOUBLE_EQ(bound_seconds("broadcast", std::vector<BytesPerSecond>{{100}, {25}, {100}}, Bytes{1'000}), 40);
  EXPECT_DOUBLE_EQ(bound_seconds("allreduce", std::vector<BytesPerSecond>{{100}, {25}, {100}, {100}}, Bytes{1'000}), 40);
  EXPECT_DOUBLE_EQ(bound_seconds("allreduce", std::vector<BytesPerSecond>{{100}, {80}, {100}, {100}}, Bytes{1'000}), 15);
  EXPECT_DOUBLE_EQ(bus_factor("allreduce", 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor("reduce-scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bound_seconds("allgather", std::vector<BytesPerSecond>(4, {100}), Bytes{1'000}), 7.5);
  EXPECT_EQ(bound_seconds("barrier", std::vector<BytesPerSecond>(4, {100}), Bytes{0}), 0);
  EXPECT_EQ(repetitions_for(0.01, 0.305), 30);
  EXPECT_EQ(repetitions_for(5, 0.3), 1);
  EXPECT_EQ(repetitions_for(0, 0.3), 200);
}

TEST(Pattern, AWrongElementAnywhereIsFound) {
  std::vector<float> data(100);
  fill(data, expected_result("allreduce", 3));
  EXPECT_EQ(first_wrong(data, expected_result("reduce", 3)), 100U);
  EXPECT_EQ(data[14], contribution(0)[1] + contribution(1)[1] + contribution(2)[1]);
  for (const std::size_t at : {std::size_t{0}, std::size_t{57}, std::size_t{99}}) {
    auto wrong = data;
    wrong[at] += 1;
    EXPECT_EQ(first_wrong(wrong, expected_result("reduce", 3)), at);
  }
  EXPECT_EQ(first_wrong(std::span<const float>(data).subspan(5), expected_result("reduce-scatter", 3), 5), 95U);
  EXPECT_EQ(first_wrong(std::span<const float>(data).subspan(5), expected_result("reduce-scatter", 3), 6), 0U);
  fill(data, expected_result("broadcast", 3));
  EXPECT_EQ(first_wrong(data, contribution(0)), 100U);
}

}  // namespace
}  // namespace paceline::bench
