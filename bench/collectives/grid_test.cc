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

TEST(CollectivesGrid, ANameThatIsNoneIsRefusedWithTheNearest) {
  EXPECT_NE(entry_of("glo").status().message().find("'gloo'"), std::string::npos) << entry_of("glo").status().message();
}

TEST(CollectivesGrid, BoundsAndBandwidthsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bound_seconds("broadcast", 8, Bytes{1'000}, {100}), 10);
  EXPECT_DOUBLE_EQ(bound_seconds("allreduce", 4, Bytes{1'000}, {100}), 15);
  EXPECT_DOUBLE_EQ(bus_factor("allreduce", 2), 1);
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
  fill(data, expected_result("broadcast", 3));
  EXPECT_EQ(first_wrong(data, contribution(0)), 100U);
}

}  // namespace
}  // namespace paceline::bench
