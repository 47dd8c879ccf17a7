#include "scheduling/egress_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace paceline::scheduling {
namespace {

constexpr std::int64_t kLeastCost = 256;  // about what the heads of a chunk and of its acknowledgement take on the wire

}  // namespace

EgressQueue::EgressQueue(EgressOptions options) : options_(options) {
  PACELINE_CHECK(options_.chunk.count >= 1, "a chunk of {} bytes", options_.chunk.count);
  set_window(options_.window);
}

void EgressQueue::set_window(Bytes window) {
  PACELINE_CHECK(window.count >= 2 * options_.chunk.count, "a window of {} bytes is smaller than two chunks of {}", window.count,
                 options_.chunk.count);
  options_.window = window;
}

Bytes EgressQueue::least_cost() const { return {std::min(kLeastCost, options_.chunk.count)}; }

std::int64_t EgressQueue::cost(std::int64_t size) const { return std::max(size, least_cost().count); }

std::int64_t EgressQueue::next_size(const Waiting& waiting) const {
  return std::min(options_.chunk.count, waiting.unit.size.count - waiting.taken);
}

EgressQueue::Lane& EgressQueue::lane(Destination destination) {
  PACELINE_CHECK(destination < lanes_.size() && lanes_[destination].exists, "no destination {}", destination);
  return lanes_[destination];
}

EgressQueue::Destination EgressQueue::add() {
  const auto unused = std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.exists; });
  Lane& added = unused == lanes_.end() ? lanes_.emplace_back() : *unused;
  added.exists = true;
  added.paused = true;
  return static_cast<Destination>(&added - lanes_.data());
}

void EgressQueue::remove(Destination destination) {
  Lane& removed = lane(destination);
  while (removed.oldest != kNone) unlink(removed, removed.oldest);
  removed.lines.clear();
  removed.urgent = 0;
  in_flight_ -= removed.in_flight;
  removed.in_flight = 0;
  removed.paused = true;
  refresh(removed);
  removed.exists = false;
}

void EgressQueue::pause(Destination destination) {
  lane(destination).paused = true;
  refresh(lanes_[destination]);
}

void EgressQueue::resume(Destination destination) {
  lane(destination).paused = false;
  refresh(lanes_[destination]);
}

// Active: has something on its way, or something that could leave.
void EgressQueue::refresh(Lane& lane) {
  const bool active = lane.in_flight > 0 || (!lane.paused && lane.waiting > 0);
  active_ += static_cast<std::int64_t>(active) - static_cast<std::int64_t>(lane.active);
  lane.active = active;
}

bool EgressQueue::more_urgent(const Waiting& a, const Waiting& b) const {
  return std::pair(a.unit.layer, a.sequence) < std::pair(b.unit.layer, b.sequence);
}

void EgressQueue::line_up(Lane& lane, std::int32_t layer, std::uint32_t slot) {
  auto line =
      std::lower_bound(lane.lines.begin(), lane.lines.end(), layer, [](const LayerLine& a, std::int32_t b) { return a.layer < b; });
  if (line == lane.lines.end() || line->layer != layer) {
    const auto at = static_cast<std::size_t>(line - lane.lines.begin());
    line = lane.lines.insert(line, {.layer = layer});
    if (at < lane.urgent || lane.waiting == 0) lane.urgent = at;
  }
  (line->first == kNone ? line->first : units_[line->last].next) = slot;
  line->last = slot;
  lane.urgent = std::min(lane.urgent, static_cast<std::size_t>(line - lane.lines.begin()));
}

// The first unit of the most urgent line goes.
void EgressQueue::leave_line(Lane& lane) {
  LayerLine& line = lane.lines[lane.urgent];
  line.first = units_[line.first].next;
  while (lane.urgent < lane.lines.size() && lane.lines[lane.urgent].first == kNone) ++lane.urgent;
}

void EgressQueue::on_ready(const Unit& unit) {
  PACELINE_CHECK(unit.size.count >= 0, "a unit of {} bytes", unit.size.count);
  Lane& to = lane(unit.destination);
  std::uint32_t slot = free_;
  if (slot == kNone) {
    slot = static_cast<std::uint32_t>(units_.size());
    units_.emplace_back();
  } else {
    free_ = units_[slot].newer;
  }
  units_[slot] = {.unit = unit, .sequence = next_sequence_++, .older = to.newest};
  (to.newest == kNone ? to.oldest : units_[to.newest].newer) = slot;
  to.newest = slot;
  // First in, first out is the same order with all layers alike.
  Layer& layer = units_[slot].unit.layer;
  if (options_.order == Order::kFirstInFirstOut) layer.index = std::min(layer.index, 0);
  line_up(to, layer.index, slot);
  ++to.waiting;
  ++waiting_;
  refresh(to);
}

void EgressQueue::unlink(Lane& lane, std::uint32_t slot) {
  Waiting& gone = units_[slot];
  (gone.older == kNone ? lane.oldest : units_[gone.older].newer) = gone.newer;
  (gone.newer == kNone ? lane.newest : units_[gone.newer].older) = gone.older;
  gone.newer = free_;
  free_ = slot;
  --lane.waiting;
  --waiting_;
}

Bytes EgressQueue::share() const {
  const auto window = options_.window.count;
  const auto chunk = options_.chunk.count;
  if (active_ <= 1) return {window};
  return {std::min(std::max(2 * chunk, 2 * window / active_), window - chunk)};
}

std::optional<EgressQueue::Chunk> EgressQueue::take() {
  if (waiting_ == 0) return std::nullopt;
  const std::int64_t limit = share().count;
  std::int64_t counted = 0;
  Lane* chosen = nullptr;
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  for (Lane& candidate : lanes_) {
    counted += std::min(candidate.in_flight, limit);
    if (candidate.paused || candidate.waiting == 0) continue;
    if (candidate.in_flight + cost(next_size(front(candidate))) > limit) continue;
    oldest = std::min(oldest, units_[candidate.oldest].sequence);
    if (chosen == nullptr || more_urgent(front(candidate), front(*chosen))) chosen = &candidate;
  }
  if (chosen == nullptr) return std::nullopt;

  const std::uint32_t slot = chosen->lines[chosen->urgent].first;
  Waiting& waiting = units_[slot];
  const std::int64_t size = next_size(waiting);
  // A smaller chunk of a less urgent unit might fit, but would make the urgent one wait longer.
  if (counted + cost(size) > options_.window.count) return std::nullopt;
  if (waiting.sequence != oldest) ++overtakes_;
  const Chunk chunk{.destination = waiting.unit.destination, .tag = waiting.unit.tag, .offset = {waiting.taken}, .size = {size}};
  waiting.taken += size;
  chosen->in_flight += cost(size);
  in_flight_ += cost(size);
  if (waiting.taken == waiting.unit.size.count) {
    leave_line(*chosen);
    unlink(*chosen, slot);
  }
  refresh(*chosen);
  return chunk;
}

void EgressQueue::on_acknowledged(Destination destination, Bytes size) {
  Lane& from = lane(destination);
  PACELINE_CHECK(from.in_flight >= cost(size.count), "{} bytes acknowledged, {} on their way", cost(size.count), from.in_flight);
  from.in_flight -= cost(size.count);
  in_flight_ -= cost(size.count);
  refresh(from);
}

Bytes EgressQueue::in_flight(Destination destination) const { return {lanes_.at(destination).in_flight}; }

std::size_t EgressQueue::waiting(Destination destination) const { return lanes_.at(destination).waiting; }

}  // namespace paceline::scheduling
