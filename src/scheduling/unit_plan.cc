#include "scheduling/unit_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace paceline::scheduling {
namespace {

constexpr double kWantedImbalance = 0.01;  // of a fair share

// A tensor is cut into `pieces` even pieces; `spread`: a multiple of the number of servers, each of which gets as many.
struct TensorCut {
  std::int64_t pieces = 1;
  bool spread = false;
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Status check(std::span<const TensorExtent> tensors, std::int32_t servers) {
  if (servers < 1) return error(ErrorKind::kBadRequest, "--servers {} is illegal; give at least 1", servers);
  std::int32_t layer = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0 && tensors[i - 1].frozen && !tensors[i].frozen)
      return error(ErrorKind::kBadRequest, "tensor {} stands behind a frozen one", i);
    if (tensors[i].elements < 0) return error(ErrorKind::kBadRequest, "tensor {} has {} elements", i, tensors[i].elements);
    if (tensors[i].layer.index < layer) {
      return error(ErrorKind::kBadRequest, "tensor {} stands in layer {} after layer {}; layers ascend", i, tensors[i].layer.index,
                   layer);
    }
    layer = tensors[i].layer.index;
  }
  return {};
}

// How many pieces there really are: none is empty.
std::int64_t pieces_of(const TensorExtent& tensor, const TensorCut& cut) { return std::min(cut.pieces, tensor.elements); }

// Makes units in arena order, merged, without homes.
class Cutter {
 public:
  Cutter(std::int64_t merge, UnitPlan& plan) : merge_(merge), plan_(plan) {}

  // One of `pieces` pieces of a tensor; a whole tensor may join the unit before it.
  void add(std::uint32_t tensor, Layer layer, std::int64_t elements, std::int64_t pieces) {
    const bool joins = pieces == 1 && joined_ + elements <= merge_ && !plan_.units.empty() && plan_.units.back().parts < kMostParts;
    if (!joins) {
      plan_.units.push_back({.id = static_cast<std::uint32_t>(plan_.units.size()),
                             .layer = layer,
                             .offset = plan_.elements,
                             .first_part = static_cast<std::uint32_t>(plan_.parts.size()),
                             .parts = 0});
      joined_ = 0;
    } else {
      joined_ += elements;
    }
    Unit& unit = plan_.units.back();
    unit.last_layer = layer;
    unit.elements += elements;
    ++unit.parts;
    plan_.parts.push_back({unit.id, tensor, plan_.elements, elements});
    plan_.elements += elements;
  }

 private:
  std::int64_t merge_;
  UnitPlan& plan_;
  std::int64_t joined_ = 0;  // elements that have joined the last unit
};

Status cut_tensors(std::span<const TensorExtent> tensors, std::span<const TensorCut> cuts, std::int64_t merge, UnitPlan& plan) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) total += pieces_of(tensors[i], cuts[i]);
  if (total >= std::numeric_limits<std::uint32_t>::max()) {
    return error(ErrorKind::kBadRequest, "the model is cut into {} units; choose larger slices, at most 4294967294 units are legal",
                 total);
  }
  plan = {};
  plan.units.reserve(static_cast<std::size_t>(total));
  plan.parts.reserve(static_cast<std::size_t>(total));
  Cutter cutter(merge, plan);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = tensors[i].elements, pieces = pieces_of(tensors[i], cuts[i]);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      // The first elements % pieces pieces have one element more.
      cutter.add(static_cast<std::uint32_t>(i), tensors[i].layer, elements / pieces + (piece < elements % pieces ? 1 : 0), pieces);
    }
  }
  return {};
}

// One unit, or as many units of a spread tensor as there are servers, one for each.
struct Group {
  std::uint32_t first = 0, count = 1;
  std::int64_t elements = 0;
};

std::vector<Group> groups_of(const UnitPlan& plan, std::span<const TensorCut> cuts, std::int32_t servers) {
  const auto all = static_cast<std::uint32_t>(servers);
  // Whether the unit begins with a piece of a spread tensor, so that it can be one of a group.
  const auto spread_tensor = [&](std::uint32_t unit) -> std::int64_t {
    const std::uint32_t tensor = plan.first_tensor(unit);
    return cuts[tensor].spread ? static_cast<std::int64_t>(tensor) : -1;
  };
  std::vector<Group> groups;
  for (std::uint32_t unit = 0; unit < plan.units.size();) {
    Group group{unit, 1, plan.units[unit].elements};
    const std::int64_t tensor = spread_tensor(unit);
    while (tensor >= 0 && group.count < all && unit + group.count < plan.units.size() &&
           spread_tensor(unit + group.count) == tensor) {
      group.elements += plan.units[unit + group.count].elements;
      ++group.count;
    }
    unit += group.count;
    groups.push_back(group);
  }
  return groups;
}

// Gives homes, to the server with least: slices in arena order, so that servers have equal shares of what travels at one time; else
// the largest group first. The units of a group go to different servers.
std::vector<std::int64_t> place(UnitPlan& plan, std::span<const TensorCut> cuts, Cut::Kind kind, std::int32_t servers) {
  std::vector<Group> groups = groups_of(plan, cuts, servers);
  if (kind != Cut::Kind::kSlices)
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.elements > b.elements; });

  std::vector<std::int64_t> load(static_cast<std::size_t>(servers), 0);
  std::vector<std::size_t> by_load(load.size());
  std::vector<std::uint32_t> by_size;
  const auto less_loaded = [&](std::size_t a, std::size_t b) { return std::pair(load[a], a) < std::pair(load[b], b); };
  const auto give = [&](std::uint32_t unit, std::size_t server) {
    plan.units[unit].server = Rank{static_cast<std::int32_t>(server)};
    load[server] += plan.units[unit].elements;
  };
  for (const Group& group : groups) {
    if (group.count == 1) {
      give(group.first, static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin()));
      continue;
    }
    std::iota(by_load.begin(), by_load.end(), std::size_t{0});
    std::sort(by_load.begin(), by_load.end(), less_loaded);
    by_size.resize(group.count);
    std::iota(by_size.begin(), by_size.end(), group.first);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return plan.units[a].elements > plan.units[b].elements; });
    for (std::uint32_t i = 0; i < group.count; ++i) give(by_size[i], by_load[i]);
  }
  return load;
}

bool balanced(std::span<const std::int64_t> load) {
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  const std::int64_t total = std::accumulate(load.begin(), load.end(), std::int64_t{0});
  return static_cast<double>(*most - *least) <= kWantedImbalance * static_cast<double>(total) / static_cast<double>(load.size());
}

std::vector<TensorCut> cuts_of(std::span<const TensorExtent> tensors, const Cut& cut, std::int32_t servers) {
  std::vector<TensorCut> cuts(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (cut.kind == Cut::Kind::kSlices) cuts[i].pieces = divided_up(tensors[i].elements, cut.elements);
    if (cut.kind == Cut::Kind::kLarge && tensors[i].elements >= cut.elements) cuts[i] = {servers, true};
  }
  return cuts;
}

void index_units(std::span<const TensorExtent> tensors, std::int32_t servers, UnitPlan& plan) {
  plan.of_server.resize(static_cast<std::size_t>(servers));
  plan.place_in_server.reserve(plan.units.size());
  for (const Unit& unit : plan.units) {
    auto& home = plan.of_server[static_cast<std::size_t>(unit.server.value)];
    plan.place_in_server.push_back(static_cast<std::uint32_t>(home.size()));
    home.push_back(unit.id);
  }
  plan.of_layer.resize(tensors.empty() ? 0 : static_cast<std::size_t>(tensors.back().layer.index) + 1);
  plan.of_tensor.resize(tensors.size());
  for (const Part& part : plan.parts) {
    for (UnitRange* range :
         {&plan.of_tensor[part.tensor], &plan.of_layer[static_cast<std::size_t>(tensors[part.tensor].layer.index)]}) {
      if (range->empty()) range->begin = part.unit;
      range->end = part.unit + 1;
    }
  }
}

// The tensors from `first` on, to the servers in turn, but to none that would hold nothing else: its iterations would never end.
void add_frozen(std::span<const TensorExtent> tensors, std::size_t first, std::int32_t servers, UnitPlan& plan) {
  std::set<Rank> homes;
  for (const Unit& unit : plan.units) homes.insert(unit.server);
  for (std::int32_t server = 0; server < servers && plan.units.empty(); ++server) homes.insert(Rank{server});
  auto home = homes.begin();
  Cutter cutter(0, plan);
  for (std::size_t i = first; i < tensors.size(); ++i) {
    if (tensors[i].elements == 0) continue;
    cutter.add(static_cast<std::uint32_t>(i), tensors[i].layer, tensors[i].elements, 1);
    plan.units.back().server = *home;
    if (++home == homes.end()) home = homes.begin();
  }
}

// The tensors of which a unit more for each server helps to balance, the largest first.
std::vector<std::size_t> divisible_largest_first(std::span<const TensorExtent> tensors) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].elements >= 2) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].elements > tensors[b].elements; });
  return order;
}

struct Attempt {
  UnitPlan plan;  // without its indices
  bool balanced = true;
};

Result<Attempt> cut_and_place(std::span<const TensorExtent> tensors, const Cut& cut, std::int32_t servers) {
  Attempt attempt;
  std::vector<TensorCut> cuts = cuts_of(tensors, cut, servers);
  PACELINE_RETURN_IF_ERROR(cut_tensors(tensors, cuts, cut.merge, attempt.plan));
  std::vector<std::int64_t> load = place(attempt.plan, cuts, cut.kind, servers);
  if (cut.kind != Cut::Kind::kBalanced && cut.kind != Cut::Kind::kSlices) return attempt;
  const std::vector<std::size_t> largest_first = divisible_largest_first(tensors);
  // More each time, so that many equal tensors do not take as many rounds.
  for (std::size_t done = 0; done < largest_first.size() && !balanced(load);) {
    const std::size_t until = std::min(largest_first.size(), done + std::max<std::size_t>(1, done / 2));
    for (; done < until; ++done) {
      TensorCut& tensor = cuts[largest_first[done]];
      tensor = {divided_up(tensor.pieces, servers) * servers, true};
    }
    PACELINE_RETURN_IF_ERROR(cut_tensors(tensors, cuts, cut.merge, attempt.plan));
    load = place(attempt.plan, cuts, cut.kind, servers);
  }
  attempt.balanced = balanced(load);
  return attempt;
}

}  // namespace

std::int64_t UnitPlan::elements_of(Rank server) const {
  std::int64_t sum = 0;
  for (const std::uint32_t unit : of_server[static_cast<std::size_t>(server.value)]) sum += units[unit].elements;
  return sum;
}

std::span<const std::uint32_t> UnitPlan::moving_of(Rank server) const {
  const auto& home = of_server[static_cast<std::size_t>(server.value)];
  return {home.begin(), std::ranges::lower_bound(home, moving)};
}

std::span<const std::uint32_t> UnitPlan::between(std::uint32_t unit, std::uint32_t last) const {
  const std::size_t first = place_in_server[unit];
  return std::span(of_server[static_cast<std::size_t>(units[unit].server.value)]).subspan(first, place_in_server[last] - first + 1);
}

std::size_t UnitPlan::offset_in_unit(std::uint32_t part) const {
  return static_cast<std::size_t>(parts[part].offset - units[parts[part].unit].offset);
}

UnitRange UnitPlan::begun_in(Layer layer) const {
  UnitRange range = of_layer[static_cast<std::size_t>(layer.index)];
  if (!range.empty() && units[range.begin].layer != layer) ++range.begin;
  return range;
}

Result<UnitPlan> make_unit_plan(std::span<const TensorExtent> all, const Cut& cut, std::int32_t servers) {
  PACELINE_RETURN_IF_ERROR(check(all, servers));
  PACELINE_RETURN_IF_ERROR(validated(ScheduleOptions{.cut = cut}).status());

  const auto tensors = all.first(static_cast<std::size_t>(std::ranges::find_if(all, &TensorExtent::frozen) - all.begin()));
  PACELINE_ASSIGN_OR_RETURN(Attempt first, cut_and_place(tensors, cut, servers));
  UnitPlan plan = std::move(first.plan);
  for (Cut smaller = cut; !first.balanced && smaller.merge > 0;) {
    smaller.merge /= 2;
    PACELINE_ASSIGN_OR_RETURN(Attempt next, cut_and_place(tensors, smaller, servers));
    if (!next.balanced) continue;
    plan = std::move(next.plan);
    break;
  }
  plan.moving = static_cast<std::uint32_t>(plan.units.size());
  add_frozen(all, tensors.size(), servers, plan);
  index_units(all, servers, plan);
  return plan;
}

}  // namespace paceline::scheduling
