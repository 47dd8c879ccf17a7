#include "scheduling/unit_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace paceline::scheduling {
namespace {

constexpr double kWantedImbalance = 0.01;  // of a fair share

// A tensor is cut into `parts` even parts; `spread`: one for each server.
struct TensorCut {
  std::int64_t parts = 1;
  bool spread = false;
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Status check(std::span<const TensorExtent> tensors, std::int32_t servers) {
  if (servers < 1) return error(ErrorKind::kBadRequest, "--servers {} is illegal; give at least 1", servers);
  std::int32_t layer = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].elements < 0) return error(ErrorKind::kBadRequest, "tensor {} has {} elements", i, tensors[i].elements);
    if (tensors[i].layer.index < layer) {
      return error(ErrorKind::kBadRequest, "tensor {} stands in layer {} after layer {}; layers ascend", i, tensors[i].layer.index,
                   layer);
    }
    layer = tensors[i].layer.index;
  }
  return {};
}

// Units in arena order, without homes.
Result<std::vector<Unit>> cut_tensors(std::span<const TensorExtent> tensors, std::span<const TensorCut> cuts) {
  std::vector<Unit> units;
  std::int64_t offset = 0, total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    total += tensors[i].elements == 0 ? 0 : std::min(cuts[i].parts, tensors[i].elements);
  if (total >= std::numeric_limits<std::uint32_t>::max()) {
    return error(ErrorKind::kBadRequest, "the model is cut into {} units; choose larger slices, at most 4294967294 units are legal",
                 total);
  }
  units.reserve(static_cast<std::size_t>(total));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t elements = tensors[i].elements;
    if (elements == 0) continue;
    const std::int64_t parts = std::min(cuts[i].parts, elements);
    for (std::int64_t part = 0; part < parts; ++part) {
      // The first elements % parts parts have one element more.
      const std::int64_t size = elements / parts + (part < elements % parts ? 1 : 0);
      units.push_back({static_cast<std::uint32_t>(units.size()), tensors[i].layer, Rank{0}, offset, size});
      offset += size;
    }
  }
  return units;
}

// Gives homes: the largest first, to the server with least. The parts of a spread tensor go to different servers, so for them the
// servers that have got one are left out.
std::vector<std::int64_t> place(std::vector<Unit>& units, std::span<const TensorExtent> tensors, std::span<const TensorCut> cuts,
                                std::int32_t servers) {
  struct Group {  // one unit, or all parts of a spread tensor
    std::uint32_t first = 0, count = 1;
    std::int64_t elements = 0;
  };
  std::vector<Group> groups;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto parts = static_cast<std::uint32_t>(std::min(cuts[i].parts, tensors[i].elements));
    if (cuts[i].spread && parts > 0) {
      groups.push_back({next, parts, tensors[i].elements});
    } else {
      for (std::uint32_t part = 0; part < parts; ++part) groups.push_back({next + part, 1, units[next + part].elements});
    }
    next += parts;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.elements > b.elements; });

  std::vector<std::int64_t> load(static_cast<std::size_t>(servers), 0);
  std::vector<std::size_t> by_load(load.size());
  const auto less_loaded = [&](std::size_t a, std::size_t b) { return std::pair(load[a], a) < std::pair(load[b], b); };
  for (const Group& group : groups) {
    if (group.count == 1) {
      const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
      units[group.first].server = Rank{static_cast<std::int32_t>(least)};
      load[least] += units[group.first].elements;
      continue;
    }
    std::iota(by_load.begin(), by_load.end(), std::size_t{0});
    std::sort(by_load.begin(), by_load.end(), less_loaded);
    for (std::uint32_t part = 0; part < group.count; ++part) {  // larger parts come first
      units[group.first + part].server = Rank{static_cast<std::int32_t>(by_load[part])};
      load[by_load[part]] += units[group.first + part].elements;
    }
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
    if (cut.kind == Cut::Kind::kSlices) cuts[i].parts = divided_up(tensors[i].elements, cut.elements);
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
  std::uint32_t next = 0;
  std::int64_t offset = 0;
  std::size_t layers_begun = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    offset += tensors[i].elements;
    UnitRange range{next, next};
    while (range.end < plan.units.size() && plan.units[range.end].offset < offset) ++range.end;
    plan.of_tensor.push_back(range);
    plan.tensor_of.insert(plan.tensor_of.end(), range.size(), static_cast<std::uint32_t>(i));
    const auto layer = static_cast<std::size_t>(tensors[i].layer.index);
    for (; layers_begun <= layer; ++layers_begun) plan.of_layer[layers_begun] = {next, next};
    plan.of_layer[layer].end = range.end;
    next = range.end;
  }
  plan.elements = offset;
}

}  // namespace

std::int64_t UnitPlan::elements_of(Rank server) const {
  std::int64_t sum = 0;
  for (const std::uint32_t unit : of_server[static_cast<std::size_t>(server.value)]) sum += units[unit].elements;
  return sum;
}

Result<UnitPlan> make_unit_plan(std::span<const TensorExtent> tensors, const Cut& cut, std::int32_t servers) {
  PACELINE_RETURN_IF_ERROR(check(tensors, servers));
  PACELINE_RETURN_IF_ERROR(validated(ScheduleOptions{.cut = cut}).status());

  UnitPlan plan;
  std::vector<TensorCut> cuts = cuts_of(tensors, cut, servers);
  PACELINE_ASSIGN_OR_RETURN(plan.units, cut_tensors(tensors, cuts));
  std::vector<std::int64_t> load = place(plan.units, tensors, cuts, servers);
  if (cut.kind == Cut::Kind::kBalanced) {
    std::vector<std::size_t> largest_first(tensors.size());
    std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
    std::stable_sort(largest_first.begin(), largest_first.end(),
                     [&](std::size_t a, std::size_t b) { return tensors[a].elements > tensors[b].elements; });
    for (std::size_t i = 0; i < tensors.size() && !balanced(load); ++i) {
      if (tensors[largest_first[i]].elements < 2) break;  // cannot be cut
      cuts[largest_first[i]] = {servers, true};
      PACELINE_ASSIGN_OR_RETURN(plan.units, cut_tensors(tensors, cuts));
      load = place(plan.units, tensors, cuts, servers);
    }
  }
  index_units(tensors, servers, plan);
  return plan;
}

}  // namespace paceline::scheduling
