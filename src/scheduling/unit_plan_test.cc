#include "scheduling/unit_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::scheduling {
namespace {

using ::testing::HasSubstr;

// What must hold for every plan, by going through its pieces one at a time.
void expect_sound(const UnitPlan& plan, const std::vector<TensorExtent>& tensors, const Cut& cut, std::int32_t servers) {
  std::int64_t offset = 0;
  std::size_t next = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::int64_t left = tensors[t].elements;
    std::int64_t smallest = left, largest = 0;
    std::size_t pieces = 0;
    std::vector<int> homes(static_cast<std::size_t>(servers), 0);
    for (; left > 0; ++next, ++pieces) {
      ASSERT_LT(next, plan.parts.size());
      const Part& part = plan.parts[next];
      ASSERT_EQ(part.offset, offset);  // no gap, no overlap
      ASSERT_GT(part.elements, 0);
      ASSERT_LE(part.elements, left);  // does not cross a tensor's border
      ASSERT_EQ(part.tensor, t);
      ASSERT_GE(part.unit, plan.of_tensor[t].begin);
      ASSERT_LT(part.unit, plan.of_tensor[t].end);
      smallest = std::min(smallest, part.elements);
      largest = std::max(largest, part.elements);
      ++homes[static_cast<std::size_t>(plan.units[part.unit].server.value)];
      offset += part.elements;
      left -= part.elements;
    }
    ASSERT_EQ(plan.of_tensor[t].size(), pieces);                      // of one tensor nothing is merged again
    ASSERT_LE(largest - smallest, tensors[t].elements == 0 ? 0 : 1);  // even pieces
    if (cut.kind == Cut::Kind::kSlices) {
      ASSERT_LE(largest, cut.elements);
    }
    if (cut.kind == Cut::Kind::kTensors) {
      ASSERT_EQ(pieces, tensors[t].elements > 0 ? 1U : 0U);
    }
    if (cut.kind == Cut::Kind::kLarge && tensors[t].elements >= std::max<std::int64_t>(cut.elements, servers)) {
      ASSERT_EQ(homes, std::vector<int>(homes.size(), 1));
    }
  }
  ASSERT_EQ(next, plan.parts.size());
  ASSERT_EQ(plan.elements, offset);
  std::uint32_t first_part = 0;
  offset = 0;
  for (std::uint32_t id = 0; id < plan.units.size(); ++id) {
    const Unit& unit = plan.units[id];
    ASSERT_EQ(unit.id, id);
    ASSERT_EQ(unit.offset, offset);
    ASSERT_EQ(unit.first_part, first_part);
    ASSERT_GE(unit.server.value, 0);
    ASSERT_LT(unit.server.value, servers);
    ASSERT_GE(unit.parts, 1U);
    ASSERT_LE(unit.parts, kMostParts);
    const auto parts = plan.parts_of(unit);
    std::int64_t elements = 0, joined = 0;
    for (const Part& part : parts) {
      ASSERT_EQ(part.unit, id);
      if (&part != &parts.front()) joined += part.elements;
      elements += part.elements;
    }
    ASSERT_EQ(unit.elements, elements);
    ASSERT_LE(joined, cut.merge);
    ASSERT_EQ(unit.layer, tensors[parts.front().tensor].layer);
    ASSERT_EQ(unit.last_layer, tensors[parts.back().tensor].layer);
    first_part += unit.parts;
    offset += unit.elements;
  }
  std::size_t listed = 0;
  for (std::int32_t s = 0; s < servers; ++s) {
    const auto& units = plan.of_server[static_cast<std::size_t>(s)];
    ASSERT_TRUE(std::ranges::is_sorted(units));
    for (std::size_t i = 0; i < units.size(); ++i) {
      ASSERT_EQ(plan.units[units[i]].server, Rank{s});
      ASSERT_EQ(plan.place_in_server[units[i]], i);
    }
    listed += units.size();
  }
  ASSERT_EQ(listed, plan.units.size());
  for (std::size_t layer = 0; layer < plan.of_layer.size(); ++layer) {
    const auto begun = plan.begun_in(Layer{static_cast<std::int32_t>(layer)});
    for (const Unit& unit : plan.units) {
      const bool holds = std::ranges::any_of(plan.parts_of(unit), [&](const Part& part) {
        return tensors[part.tensor].layer.index == static_cast<std::int32_t>(layer);
      });
      ASSERT_EQ(unit.id >= plan.of_layer[layer].begin && unit.id < plan.of_layer[layer].end, holds);
      ASSERT_EQ(unit.id >= begun.begin && unit.id < begun.end, unit.layer.index == static_cast<std::int32_t>(layer));
    }
  }
}

std::int64_t imbalance(const UnitPlan& plan) {
  std::int64_t least = plan.elements, most = 0;
  for (std::size_t s = 0; s < plan.of_server.size(); ++s) {
    const std::int64_t load = plan.elements_of(Rank{static_cast<std::int32_t>(s)});
    least = std::min(least, load);
    most = std::max(most, load);
  }
  return most - least;
}

TEST(UnitPlan, CoversTheArenaWithoutGapOrOverlapForAllCutsAndServers) {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](std::int64_t from, std::int64_t to) {
      return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
    };
    std::vector<TensorExtent> tensors(static_cast<std::size_t>(draw(0, 12)));
    std::int32_t layer = 0;
    for (auto& tensor : tensors)
      tensor = {draw(0, 5) == 0 ? draw(0, 2) : draw(1, 2000), Layer{layer += static_cast<std::int32_t>(draw(0, 1))}};
    const auto servers = static_cast<std::int32_t>(draw(1, 7));
    const Cut cuts[] = {whole_tensors(), balanced_tensors(), split_large_tensors(draw(1, 1500)), slices_of(draw(1, 300))};
    const std::int64_t merge = draw(0, 2) == 0 ? 0 : draw(1, 3000);
    for (Cut cut : cuts) {
      cut.merge = merge;
      const auto plan = make_unit_plan(tensors, cut, servers);
      ASSERT_TRUE(plan.ok());
      expect_sound(*plan, tensors, cut, servers);
      if (HasFatalFailure()) return;
      ASSERT_EQ(*plan, *make_unit_plan(tensors, cut, servers));
    }
    // Within 1 % of a fair share, or every tensor is cut into single elements or as many pieces for each server.
    for (Cut cut : {cuts[1], cuts[3]}) {
      const auto plan = *make_unit_plan(tensors, cut, servers);
      if (static_cast<double>(imbalance(plan)) <= 0.01 * static_cast<double>(plan.elements) / servers) continue;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        const auto pieces = static_cast<std::int64_t>(plan.of_tensor[t].size());
        ASSERT_TRUE(pieces % servers == 0 || pieces == tensors[t].elements) << pieces;
      }
    }
  }
}

TEST(UnitPlan, BalancesRealModelsWithinOnePerCent) {
  // LeNet: one tensor has 400 000 of 431 080 parameters.
  const std::vector<TensorExtent> lenet = {{500, Layer{0}},     {20, Layer{0}},  {25'000, Layer{1}}, {50, Layer{1}},
                                           {400'000, Layer{2}}, {500, Layer{2}}, {5'000, Layer{3}},  {10, Layer{3}}};
  for (std::int32_t servers = 2; servers <= 8; ++servers) {
    for (Cut cut : {balanced_tensors(), slices_of(50'000), slices_of(7'000)}) {
      for (const std::int64_t merge : {0, 600, 1'000'000}) {
        cut.merge = merge;
        const auto plan = *make_unit_plan(lenet, cut, servers);
        EXPECT_LE(static_cast<double>(imbalance(plan)), 0.01 * 431'080 / servers) << servers << " servers, merge " << merge;
      }
    }
  }
  // Two servers: the tensor that makes the imbalance and the next one are cut, the small ones are not.
  const auto two = *make_unit_plan(lenet, balanced_tensors(), 2);
  EXPECT_EQ(two.of_tensor[4].size(), 2U);
  EXPECT_EQ(two.of_tensor[0].size(), 1U);
}

TEST(UnitPlan, KeepsTensorsWholeWhenTheyBalanceAnyway) {
  const std::vector<TensorExtent> tensors = {{1000, Layer{0}}, {1000, Layer{1}}, {1000, Layer{2}}, {1000, Layer{3}}};
  EXPECT_EQ(make_unit_plan(tensors, balanced_tensors(), 4)->units.size(), 4U);
  EXPECT_EQ(make_unit_plan(tensors, balanced_tensors(), 2)->units.size(), 4U);
  EXPECT_EQ(make_unit_plan(tensors, balanced_tensors(), 1)->units.size(), 4U);
}

TEST(UnitPlan, JoinsSmallTensorsToTheUnitBeforeThem) {
  const std::vector<TensorExtent> tensors = {{100, Layer{0}}, {5, Layer{0}}, {6, Layer{1}}, {4, Layer{1}},
                                             {200, Layer{2}}, {7, Layer{3}}, {0, Layer{3}}, {300, Layer{4}}};
  Cut cut = slices_of(100);
  cut.merge = 12;
  const auto plan = *make_unit_plan(tensors, cut, 1);
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Unit& unit : plan.units) shapes.push_back({unit.layer.index, unit.last_layer.index, unit.elements, unit.parts});
  EXPECT_EQ(shapes, (std::vector<std::vector<std::int64_t>>{{0, 1, 111, 3},  // the next would be 15 that joined
                                                            {1, 1, 4, 1},
                                                            {2, 2, 100, 1},  // a slice never joins
                                                            {2, 3, 107, 2},
                                                            {4, 4, 100, 1},
                                                            {4, 4, 100, 1},
                                                            {4, 4, 100, 1}}));
  EXPECT_EQ(plan.of_layer[1], (UnitRange{0, 2}));
  EXPECT_EQ(plan.begun_in(Layer{1}), (UnitRange{1, 2}));
  EXPECT_TRUE(plan.begun_in(Layer{3}).empty());
  EXPECT_EQ(all_parts(plan.units[0]), 0b111U);
  const std::vector<TensorExtent> many(100, {1, Layer{0}});
  cut.merge = 1000;
  EXPECT_EQ(make_unit_plan(many, cut, 1)->units.size(), 4U);  // 32 in each
  EXPECT_EQ(all_parts(make_unit_plan(many, cut, 1)->units[0]), ~0U);
}

TEST(UnitPlan, GoesRoundTheServersWithSlicesOfOneSize) {
  const std::vector<TensorExtent> tensors = {{300'000, Layer{0}}};
  const auto plan = *make_unit_plan(tensors, p3().cut, 3);
  ASSERT_EQ(plan.units.size(), 6U);
  for (const Unit& unit : plan.units) {
    EXPECT_EQ(unit.elements, 50'000);
    EXPECT_EQ(unit.server.value, static_cast<std::int32_t>(unit.id % 3));
  }
}

// What is needed first, up to any slice, is shared by all servers.
TEST(UnitPlan, SharesEveryBeginningOfTheModelWithSlices) {
  std::vector<TensorExtent> tensors;
  for (std::int32_t layer = 0; layer < 24; ++layer) {
    tensors.push_back({layer % 3 == 0 ? 307'200 : 102'400 + 1'000 * layer, Layer{layer}});
    tensors.push_back({320, Layer{layer}});
  }
  for (const std::int32_t servers : {2, 3, 4, 7}) {
    std::vector<std::int64_t> load(static_cast<std::size_t>(servers), 0);
    const auto plan = *make_unit_plan(tensors, p3().cut, servers);
    for (const Unit& unit : plan.units) {
      load[static_cast<std::size_t>(unit.server.value)] += unit.elements;
      const auto [least, most] = std::ranges::minmax(load);
      EXPECT_LE(most - least, 50'000) << "unit " << unit.id << " of " << servers << " servers";
    }
  }
}

TEST(UnitPlan, PutsTheLargestFirstWhereLeastIsAndTheLowestServerOnTies) {
  const std::vector<TensorExtent> tensors = {{1, Layer{0}}, {5, Layer{0}}, {4, Layer{1}}, {3, Layer{1}}, {3, Layer{2}}};
  const auto plan = *make_unit_plan(tensors, whole_tensors(), 2);
  std::vector<int> homes;
  for (const Unit& unit : plan.units) homes.push_back(unit.server.value);
  // 5 -> 0, 4 -> 1, 3 -> 1 (4 < 5), 3 -> 0 (5 < 7), 1 -> 1 (7 < 8)
  EXPECT_EQ(homes, (std::vector<int>{1, 0, 1, 1, 0}));
}

TEST(UnitPlan, FrozenTensorsAreUnitsByThemselvesBehindAllOthersAndBalanceNothing) {
  const std::vector<TensorExtent> tensors = {{30, Layer{0}},         {20, Layer{0}},      {10, Layer{1}},
                                             {1000, Layer{2}, true}, {0, Layer{2}, true}, {5, Layer{2}, true}};
  Cut cut = whole_tensors();
  cut.merge = 10;
  const auto plan = *make_unit_plan(tensors, cut, 2);
  const auto without = *make_unit_plan(std::span(tensors).first(3), cut, 2);
  EXPECT_EQ(plan.moving, without.units.size());
  EXPECT_EQ(std::vector(plan.units.begin(), plan.units.begin() + plan.moving), without.units);
  ASSERT_EQ(plan.units.size(), plan.moving + 2U);
  EXPECT_EQ(plan.units[plan.moving].elements, 1000);
  EXPECT_EQ(plan.units[plan.moving + 1].elements, 5);
  EXPECT_EQ(plan.elements, 1065);
  EXPECT_EQ(plan.of_layer[2], (UnitRange{plan.moving, plan.moving + 2}));
  for (const Rank server : {Rank{0}, Rank{1}}) {
    const auto moving = plan.moving_of(server);
    EXPECT_EQ(std::vector(moving.begin(), moving.end()), without.of_server[static_cast<std::size_t>(server.value)]);
  }
  EXPECT_FALSE(make_unit_plan(std::vector<TensorExtent>{{1, Layer{0}, true}, {1, Layer{1}}}, cut, 1).ok());
}

TEST(UnitPlan, NoServerHasFrozenTensorsAloneWhereAnyMove) {
  const std::vector<TensorExtent> tensors = {
      {30, Layer{0}}, {20, Layer{0}}, {7, Layer{2}, true}, {8, Layer{2}, true}, {9, Layer{2}, true}};
  const auto homes = [](const UnitPlan& plan) {
    std::vector<int> ranks;
    for (const Unit& unit : plan.units) ranks.push_back(unit.server.value);
    return ranks;
  };
  EXPECT_EQ(homes(*make_unit_plan(tensors, whole_tensors(), 4)), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(homes(*make_unit_plan(tensors, whole_tensors(), 2)), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(homes(*make_unit_plan(std::span(tensors).last(3), whole_tensors(), 2)), (std::vector<int>{0, 1, 0})) << "none moves";
}

TEST(UnitPlan, RefusesBadRequests) {
  const std::vector<TensorExtent> good = {{10, Layer{0}}}, descending = {{1, Layer{1}}, {1, Layer{0}}}, negative = {{-1, Layer{0}}},
                                  below = {{1, Layer{-1}}};
  const auto message = [](const auto& tensors, const Cut& cut, std::int32_t servers) {
    const auto plan = make_unit_plan(tensors, cut, servers);
    return plan.ok() ? std::string() : plan.status().message();
  };
  EXPECT_THAT(message(good, whole_tensors(), 0), HasSubstr("--servers 0"));
  EXPECT_THAT(message(good, slices_of(0), 1), HasSubstr("--slice 0"));
  EXPECT_THAT(message(good, split_large_tensors(-4), 1), HasSubstr("--slice -4"));
  EXPECT_THAT(message(good, Cut{Cut::Kind::kTensors, 5}, 1), HasSubstr("does not apply"));
  EXPECT_THAT(message(good, Cut{Cut::Kind::kTensors, 0, -1}, 1), HasSubstr("--merge -1"));
  EXPECT_THAT(message(descending, whole_tensors(), 1), HasSubstr("layer 0 after layer 1"));
  EXPECT_THAT(message(negative, whole_tensors(), 1), HasSubstr("-1 elements"));
  EXPECT_THAT(message(below, whole_tensors(), 1), HasSubstr("layer -1"));
  const std::vector<TensorExtent> huge = {{std::int64_t{1} << 40, Layer{0}}};
  EXPECT_THAT(message(huge, slices_of(1), 1), HasSubstr("choose larger slices"));
}

TEST(Schedule, KnowsItsNamesAndSuggestsTheNearest) {
  for (const std::string& name : schedule_names()) EXPECT_TRUE(parse_schedule_name(name).ok()) << name;
  EXPECT_EQ(*parse_schedule_name("default"), default_schedule());
  EXPECT_EQ(*parse_schedule_name("layer-wise"), layer_wise());
  EXPECT_EQ(*parse_schedule_name("p3"), p3());
  EXPECT_EQ(*parse_schedule_name("kvstore"), kvstore());
  const Status wrong = parse_schedule_name("layerwise").status();
  EXPECT_EQ(wrong.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(wrong.message(), HasSubstr("legal are default, layer-wise"));
  EXPECT_THAT(wrong.message(), HasSubstr("did you mean 'layer-wise'"));
}

}  // namespace
}  // namespace paceline::scheduling
