// Which parts of the model travel as one message, and which server each one lives on. A pure function of its arguments, so workers
// and servers that agree on the tensors agree on every unit and home without exchanging them.
//
// All values of a model stand behind each other in one array of float32 (the arena, wire/tensor_table.h); a unit is a contiguous
// range of it. Plain data, any thread.
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
  Layer layer;                            // its priority: the layer that waits for it
  Rank server;                            // its home
  std::int64_t offset = 0, elements = 0;  // in the arena; elements > 0

  bool operator==(const Unit&) const = default;
};

// Units begin .. end-1.
struct UnitRange {
  std::uint32_t begin = 0, end = 0;

  bool empty() const { return begin == end; }
  std::uint32_t size() const { return end - begin; }
  bool operator==(const UnitRange&) const = default;
};

struct UnitPlan {
  std::vector<Unit> units;                            // in arena order: they cover it without gap or overlap
  std::vector<std::vector<std::uint32_t>> of_server;  // by server: its units, ascending
  std::vector<UnitRange> of_layer;                    // by Layer::index; empty for a layer without elements
  std::vector<UnitRange> of_tensor;                   // by position of the tensor in the arena; empty for a tensor without elements
  std::vector<std::uint32_t> tensor_of;               // by unit
  std::vector<std::uint32_t> place_in_server;         // by unit: its index in of_server[home]
  std::int64_t elements = 0;                          // of the arena

  std::int64_t elements_of(Rank server) const;
  bool operator==(const UnitPlan&) const = default;
};

struct TensorExtent {
  std::int64_t elements = 0;
  Layer layer;
};

// Cuts the tensors (in arena order) and gives every unit a home. Homes balance bytes: the largest unit first, onto the server that
// has least so far, the lowest rank on ties; equal units in arena order, so that slices of one size go round. Parts of a tensor
// that is split "over all servers" differ by at most one element, and each server gets one. kBadRequest: no server, elements
// negative, layers that descend or are negative, an illegal cut, more than 2^32 - 1 units. O(units * log(units)); kBalanced at most
// tensors times that.
Result<UnitPlan> make_unit_plan(std::span<const TensorExtent> tensors, const Cut& cut, std::int32_t servers);

}  // namespace paceline::scheduling
