#include "scheduling/waiting_units.h"

#include <algorithm>

namespace paceline::scheduling {

void WaitingUnits::add(Lines& lines, const EgressUnit& unit) {
  std::uint32_t slot = free_;
  if (slot == kNone) {
    slot = static_cast<std::uint32_t>(units_.size());
    units_.emplace_back();
  } else {
    free_ = units_[slot].newer;
  }
  units_[slot] = {.unit = unit, .sequence = next_sequence_++, .older = lines.newest};
  if (lines.newest == kNone) lines.oldest_sequence = units_[slot].sequence;
  (lines.newest == kNone ? lines.oldest : units_[lines.newest].newer) = slot;
  lines.newest = slot;
  line_up(lines.flows[static_cast<std::size_t>(unit.flow)], unit.layer.index, slot);
  ++lines.waiting;
  ++count_;
}

std::int64_t WaitingUnits::take(Lines& lines, std::size_t flow, std::int64_t size) {
  FlowLines& from = lines.flows[flow];
  const std::uint32_t slot = from.front.slot;
  const std::int64_t before = units_[slot].taken;
  units_[slot].taken += size;
  from.front.rest -= size;
  if (from.front.rest == 0) {
    leave_line(from);
    unlink(lines, slot);
  }
  return before;
}

void WaitingUnits::clear(Lines& lines) {
  while (lines.oldest != kNone) unlink(lines, lines.oldest);
  for (FlowLines& flow : lines.flows) flow = {};
}

void WaitingUnits::line_up(FlowLines& flow, std::int32_t layer, std::uint32_t slot) {
  auto line =
      std::lower_bound(flow.lines.begin(), flow.lines.end(), layer, [](const LayerLine& a, std::int32_t b) { return a.layer < b; });
  if (line == flow.lines.end() || line->layer != layer) line = flow.lines.insert(line, {.layer = layer});
  (line->first == kNone ? line->first : units_[line->last].next) = slot;
  line->last = slot;
  flow.urgent = std::min(flow.urgent, static_cast<std::size_t>(line - flow.lines.begin()));
  if (flow.lines[flow.urgent].first == slot) look_at_front(flow);
}

// The first unit of the most urgent line goes.
void WaitingUnits::leave_line(FlowLines& flow) {
  LayerLine& line = flow.lines[flow.urgent];
  line.first = units_[line.first].next;
  while (flow.urgent < flow.lines.size() && flow.lines[flow.urgent].first == kNone) ++flow.urgent;
  look_at_front(flow);
}

void WaitingUnits::look_at_front(FlowLines& flow) {
  flow.front = {};
  if (flow.urgent == flow.lines.size()) return;
  const std::uint32_t slot = flow.lines[flow.urgent].first;
  const Waiting& first = units_[slot];
  flow.front = {slot, first.unit.layer.index, first.sequence, first.unit.size.count - first.taken, first.unit.turn};
}

void WaitingUnits::unlink(Lines& lines, std::uint32_t slot) {
  Waiting& gone = units_[slot];
  (gone.older == kNone ? lines.oldest : units_[gone.older].newer) = gone.newer;
  (gone.newer == kNone ? lines.newest : units_[gone.newer].older) = gone.older;
  if (lines.oldest != kNone) lines.oldest_sequence = units_[lines.oldest].sequence;
  gone.newer = free_;
  free_ = slot;
  --lines.waiting;
  --count_;
}

}  // namespace paceline::scheduling
