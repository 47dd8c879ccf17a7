// Which ranges of the model travel as one message, and which server each one lives on. A pure function of its arguments, so workers
// and servers that agree on the tensors agree on every unit and home without exchanging them.
//
// All values of a model stand behind each other in one array of float32 (the arena, wire/tensor_table.h); a unit is a contiguous
// range of it: a tensor, a slice of one, or several of these that were merged. What a unit holds of one tensor is a part; tensors
// are updated each for itself, so a part is what servers count steps for. Plain data, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "scheduling/schedule.h"

namespace paceline::scheduling {

struct Unit {
  std::uint32_t id = 0;                   // index into UnitPlan::units
  Layer layer;                            // its priority: the first layer that waits for it
  Layer last_layer;                       // the last one that does; another one only when layers were merged
  Rank server;                            // its home
  std::int64_t offset = 0, elements = 0;  // in the arena; elements > 0
  std::uint32_t first_part = 0;           // index into UnitPlan::parts
  std::uint32_t parts = 1;                // 1 .. kMostParts

  bool operator==(const Unit&) const = default;
};

// So that a message's head can say of each part whether it is meant (wire/message.h).
inline constexpr std::uint32_t kMostParts = 32;

// Bits 0 .. parts-1.
inline std::uint32_t all_parts(const Unit& unit) { return ~std::uint32_t{0} >> (kMostParts - unit.parts); }

// What a unit holds of one tensor.
struct Part {
  std::uint32_t unit = 0;
  std::uint32_t tensor = 0;               // position of the tensor in the arena
  std::int64_t offset = 0, elements = 0;  // in the arena; elements > 0

  bool operator==(const Part&) const = default;
};

// Units begin .. end-1.
struct UnitRange {
  std::uint32_t begin = 0, end = 0;

  bool empty() const { return begin == end; }
  std::uint32_t size() const { return end - begin; }
  bool operator==(const UnitRange&) const = default;
};

struct UnitPlan {
  std::vector<Unit> units;   // in arena order: they cover it without gap or overlap
  std::vector<Part> parts;   // in arena order
  std::uint32_t moving = 0;  // the first so many units have gradients; those behind them are of frozen tensors
  std::vector<std::vector<std::uint32_t>> of_server;  // by server: its units, ascending
  std::vector<UnitRange> of_layer;   // by Layer::index: the units that hold something of the layer; neighbours may share one
  std::vector<UnitRange> of_tensor;  // by position of the tensor in the arena, likewise; empty for a tensor without elements
  std::vector<std::uint32_t> place_in_server;  // by unit: its index in of_server[home]
  std::int64_t elements = 0;                   // of the arena

  std::int64_t elements_of(Rank server) const;
  // Of of_server, the units that have gradients.
  std::span<const std::uint32_t> moving_of(Rank server) const;
  // Of the units that live where `unit` and `last` do, those from one to the other.
  std::span<const std::uint32_t> between(std::uint32_t unit, std::uint32_t last) const;
  // Of of_layer, the units whose first layer it is.
  UnitRange begun_in(Layer layer) const;
  std::span<const Part> parts_of(const Unit& unit) const { return std::span(parts).subspan(unit.first_part, unit.parts); }
  // Where a part lies in its unit; its bit where parts of a unit are bits.
  std::size_t offset_in_unit(std::uint32_t part) const;
  std::uint32_t bit_of(std::uint32_t part) const { return 1U << (part - units[parts[part].unit].first_part); }
  template <typename T>
  std::span<T> of_part(std::span<T> of_unit, std::uint32_t part) const {
    return of_unit.subspan(offset_in_unit(part), static_cast<std::size_t>(parts[part].elements));
  }
  // For messages: the tensor that the unit begins with.
  std::uint32_t first_tensor(std::uint32_t unit) const { return parts[units[unit].first_part].tensor; }
  bool operator==(const UnitPlan&) const = default;
};

struct TensorExtent {
  std::int64_t elements = 0;
  Layer layer;
  bool frozen = false;  // no gradient; behind all that have one
};

// Cuts the tensors (in arena order), merges small neighbours and gives every unit a home.
//
// Merging (Cut::merge): a tensor that is not cut joins the unit before it, of its own or an earlier layer, as long as what has
// joined that unit stays within `merge` elements together. So nobody waits for more than that because of merging.
//
// Homes balance bytes: each unit onto the server that has least so far, the lowest rank on ties. Slices come in arena order, so
// that the servers share the first layers' bytes, the next ones' and the last ones': whatever travels at one time. Other units
// come the largest first. Pieces of a tensor that is split "over all servers" differ by at most one element,
// and each server gets as many of them. Where slices alone leave the servers' shares further apart than 1 % of a fair share, the
// largest tensors get a multiple of `servers` slices, which are smaller, until they do not. Where that does not help, less is
// merged.
//
// A frozen tensor is a unit by itself, and its bytes balance nothing: it travels once. Its home is a server that has others too,
// where any are.
//
// kBadRequest: no server, elements negative, layers that descend or are negative, an illegal cut, more than 2^32 - 1 units.
// O(units * log(units)), at most log(tensors) * log(merge) times that, mostly once.
Result<UnitPlan> make_unit_plan(std::span<const TensorExtent> tensors, const Cut& cut, std::int32_t servers);

}  // namespace paceline::scheduling
