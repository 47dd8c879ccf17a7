// The units that wait in an egress queue, in the order in which each destination's are sent: by layer, and first come, first served
// within a layer. One store for all destinations, so that nothing is allocated once warm; each destination has its Lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "scheduling/schedule.h"

namespace paceline::scheduling {

// A message that is complete and may leave.
struct EgressUnit {
  using Destination = std::uint32_t;

  Destination destination = 0;
  Layer layer;
  Bytes size;             // 0: leaves as one chunk without bytes
  std::uint64_t tag = 0;  // the caller's own; comes back with each chunk
  Flow flow = Flow::kPush;
  Iteration iteration = 0;  // that it belongs to
  // A step of a plan in which one node hands a message on while others still get theirs: of several destinations that with the
  // smallest turn in a layer is served first, whatever is on its way there. Nothing: it is no such step.
  std::optional<std::uint64_t> turn;
};

class WaitingUnits {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Of a unit what decisions compare, so that they look at no unit but the one that they choose.
  struct Front {
    std::uint32_t slot = kNone;
    std::int32_t layer = 0;
    std::uint64_t sequence = 0;
    std::int64_t rest = 0;  // bytes that have not been taken
    std::optional<std::uint64_t> turn;
  };
  struct LayerLine {  // first come, first served within a layer
    std::int32_t layer = 0;
    std::uint32_t first = kNone, last = kNone;
  };
  struct FlowLines {
    std::vector<LayerLine> lines;  // ascending layers; one that has become empty stays, for it will be used again
    std::size_t urgent = 0;        // the first line that is not empty, or lines.size()
    Front front;                   // the first unit of that line; kNone: all are empty

    bool empty() const { return front.slot == kNone; }
  };
  // Of one destination.
  struct Lines {
    std::array<FlowLines, kFlows> flows;
    std::uint32_t oldest = kNone, newest = kNone;
    std::uint64_t oldest_sequence = 0;  // with something waiting
    std::size_t waiting = 0;
  };

  // The unit is the newest. O(log layers), O(layers) for the first unit of a layer.
  void add(Lines& lines, const EgressUnit& unit);
  // `size` bytes of the flow's first unit leave; returns how many of it had left before. Requires: it has so many.
  std::int64_t take(Lines& lines, std::size_t flow, std::int64_t size);
  void clear(Lines& lines);

  const EgressUnit& unit(std::uint32_t slot) const { return units_[slot].unit; }
  std::size_t count() const { return count_; }

 private:
  struct alignas(64) Waiting {
    EgressUnit unit;
    std::uint64_t sequence = 0;
    std::int64_t taken = 0;                      // bytes
    std::uint32_t older = kNone, newer = kNone;  // of the same destination, in the order of becoming ready; or the free list
    std::uint32_t next = kNone;                  // of the same destination and layer
  };

  void line_up(FlowLines& flow, std::int32_t layer, std::uint32_t slot);
  void leave_line(FlowLines& flow);
  void look_at_front(FlowLines& flow);
  void unlink(Lines& lines, std::uint32_t slot);

  std::vector<Waiting> units_;
  std::uint32_t free_ = kNone;
  std::uint64_t next_sequence_ = 0;
  std::size_t count_ = 0;
};

}  // namespace paceline::scheduling
