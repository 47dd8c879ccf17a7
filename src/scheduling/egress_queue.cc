#include "scheduling/egress_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace paceline::scheduling {
namespace {

constexpr std::int64_t kLeastCost = 256;  // about what the heads of a chunk and of its acknowledgement take on the wire
constexpr std::int64_t kTailWindow = 4;   // chunks; in a smaller one a chunk with a tail might not fit into a share
constexpr std::size_t kFew = 16;          // destinations that are sooner looked at than kept in order

}  // namespace

EgressQueue::EgressQueue(EgressOptions options)
    : options_(options), orders_{options.order, options.order}, least_cost_(std::min(kLeastCost, options.chunk.count)) {
  set_window(options.window, options.chunk);
}

void EgressQueue::set_window(Bytes window, Bytes chunk) {
  PACELINE_CHECK(chunk.count >= 1, "a chunk of {} bytes", chunk.count);
  PACELINE_CHECK(window.count >= 2 * chunk.count, "a window of {} bytes is smaller than two chunks of {}", window.count,
                 chunk.count);
  PACELINE_CHECK(chunk.count >= least_cost_, "a chunk of {} bytes, where an empty one counts as {}", chunk.count, least_cost_);
  options_.window = window;
  options_.chunk = chunk;
}

std::int64_t EgressQueue::cost(std::int64_t size) const { return std::max(size, least_cost_); }

std::int64_t EgressQueue::next_size(std::int64_t rest) const {
  const std::int64_t chunk = options_.chunk.count;
  const bool takes_tail = options_.window.count >= kTailWindow * chunk && rest - chunk <= chunk / 2;
  return rest <= chunk || takes_tail ? rest : chunk;
}

EgressQueue::Lane& EgressQueue::lane(Destination destination) {
  PACELINE_CHECK(destination < lanes_.size() && lanes_[destination].exists, "no destination {}", destination);
  return lanes_[destination];
}

EgressQueue::Destination EgressQueue::add() {
  auto unused = lanes_.end();
  if (existing_ < lanes_.size()) unused = std::ranges::find(lanes_, false, &Lane::exists);
  Lane& added = unused == lanes_.end() ? lanes_.emplace_back() : *unused;
  if (lanes_.size() > idle_oldest_.size()) {
    const std::size_t more = 2 * std::max(kFew, idle_oldest_.size());
    for (auto& heads : idle_heads_) heads.grow(more);
    idle_oldest_.grow(more);
    seen_.reserve(more);
  }
  if (lanes_.size() == kFew + 1) std::ranges::for_each(lanes_, [this](Lane& lane) { refresh(lane); });
  ++existing_;
  added.exists = true;
  added.paused = true;
  return static_cast<Destination>(&added - lanes_.data());
}

void EgressQueue::remove(Destination destination) {
  Lane& removed = lane(destination);
  while (removed.oldest != kNone) unlink(removed, removed.oldest);
  for (FlowLines& flow : removed.flows) flow = {};
  in_flight_ -= removed.in_flight;
  removed.in_flight = 0;
  removed.paused = true;
  refresh(removed);
  removed.exists = false;
  --existing_;
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
  keep_seen(lane);
  keep_idle(lane);
}

void EgressQueue::keep_seen(Lane& lane) {
  const bool is_seen = lane.seen_at != kNone;
  if (is_seen == (lane.in_flight > 0 || (lane.active && lanes_.size() <= kFew))) return;
  if (is_seen) {
    const Destination last = seen_.back();
    seen_[lane.seen_at] = last;
    lanes_[last].seen_at = lane.seen_at;
    seen_.pop_back();
    lane.seen_at = kNone;
  } else {
    lane.seen_at = static_cast<std::uint32_t>(seen_.size());
    seen_.push_back(static_cast<Destination>(&lane - lanes_.data()));
  }
}

void EgressQueue::keep_idle(Lane& lane) {
  if (lanes_.size() <= kFew) return;
  const auto player = static_cast<std::uint32_t>(&lane - lanes_.data());
  const bool is_idle = lane.active && lane.seen_at == kNone;
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    std::optional<Urgency> head;
    if (is_idle && !lane.flows[flow].empty()) head = lane.flows[flow].front.urgency;
    idle_heads_[flow].set(player, head);
  }
  idle_oldest_.set(player, is_idle ? std::optional(lane.oldest_sequence) : std::nullopt);
}

// Requires: both have a unit of the flow.
bool EgressQueue::comes_before(const Lane& a, const Lane& b, std::size_t flow) {
  const Front &of_a = a.flows[flow].front, &of_b = b.flows[flow].front;
  if (of_a.urgency.layer != of_b.urgency.layer) return of_a.urgency.layer < of_b.urgency.layer;
  const std::int64_t on_way_a = of_a.in_sequence ? 0 : a.in_flight;
  const std::int64_t on_way_b = of_b.in_sequence ? 0 : b.in_flight;
  if (on_way_a != on_way_b) return on_way_a < on_way_b;
  return of_a.urgency.sequence < of_b.urgency.sequence;
}

void EgressQueue::line_up(FlowLines& flow, std::int32_t layer, std::uint32_t slot) {
  auto line =
      std::lower_bound(flow.lines.begin(), flow.lines.end(), layer, [](const LayerLine& a, std::int32_t b) { return a.layer < b; });
  if (line == flow.lines.end() || line->layer != layer) line = flow.lines.insert(line, {.layer = layer});
  (line->first == kNone ? line->first : units_[line->last].next) = slot;
  line->last = slot;
  flow.urgent = std::min(flow.urgent, static_cast<std::size_t>(line - flow.lines.begin()));
  if (flow.lines[flow.urgent].first == slot) look_at_front(flow);
}

// The first unit of the most urgent line goes.
void EgressQueue::leave_line(FlowLines& flow) {
  LayerLine& line = flow.lines[flow.urgent];
  line.first = units_[line.first].next;
  while (flow.urgent < flow.lines.size() && flow.lines[flow.urgent].first == kNone) ++flow.urgent;
  look_at_front(flow);
}

void EgressQueue::look_at_front(FlowLines& flow) {
  flow.front = {};
  if (flow.urgent == flow.lines.size()) return;
  const std::uint32_t slot = flow.lines[flow.urgent].first;
  const Waiting& first = units_[slot];
  flow.front = {slot, {first.unit.layer.index, first.sequence}, first.unit.size.count - first.taken, first.unit.in_sequence};
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
  if (to.newest == kNone) to.oldest_sequence = units_[slot].sequence;
  (to.newest == kNone ? to.oldest : units_[to.newest].newer) = slot;
  to.newest = slot;
  // First in, first out is the same order with all layers alike.
  Layer& layer = units_[slot].unit.layer;
  if (orders_[index(unit.flow)] == Order::kFirstInFirstOut) layer.index = std::min(layer.index, 0);
  line_up(to.flows[index(unit.flow)], layer.index, slot);
  ++to.waiting;
  ++waiting_;
  refresh(to);
}

void EgressQueue::unlink(Lane& lane, std::uint32_t slot) {
  Waiting& gone = units_[slot];
  (gone.older == kNone ? lane.oldest : units_[gone.older].newer) = gone.newer;
  (gone.newer == kNone ? lane.newest : units_[gone.newer].older) = gone.older;
  if (lane.oldest != kNone) lane.oldest_sequence = units_[lane.oldest].sequence;
  gone.newer = free_;
  free_ = slot;
  --lane.waiting;
  --waiting_;
}

// A message of a few bytes, of the control plane for example, makes no second destination.
Bytes EgressQueue::limit() const {
  if (active_ <= 1 || options_.wide <= options_.window) return options_.window;
  const auto holding =
      std::ranges::count_if(seen_, [&](Destination seen) { return lanes_[seen].in_flight >= options_.chunk.count; });
  return holding > 1 ? options_.wide : options_.window;
}

Bytes EgressQueue::share() const {
  const auto window = limit().count;
  const auto chunk = options_.chunk.count;
  if (active_ <= 1) return {window};
  return {std::min(std::max(2 * chunk, 2 * window / active_), window - chunk)};
}

// The flow that comes before the other whoever left last; nothing: they take turns.
std::optional<Flow> EgressQueue::first_of(const Heads& heads) const {
  const std::size_t push = index(Flow::kPush), reply = index(Flow::kReply);
  if (heads[push] == nullptr || heads[reply] == nullptr) return heads[push] == nullptr ? Flow::kReply : Flow::kPush;
  const auto lower = [](auto a, auto b) { return a < b ? Flow::kPush : Flow::kReply; };
  const Front &a = heads[push]->flows[push].front, &b = heads[reply]->flows[reply].front;
  const bool a_controls = a.urgency.layer < 0, b_controls = b.urgency.layer < 0;
  if (a_controls != b_controls) return a_controls ? Flow::kPush : Flow::kReply;
  if (orders_[0] == Order::kFirstInFirstOut || orders_[1] == Order::kFirstInFirstOut) return std::nullopt;
  const Iteration of_a = units_[a.slot].unit.iteration, of_b = units_[b.slot].unit.iteration;
  if (of_a != of_b) return lower(of_a, of_b);
  if (a.urgency.layer == b.urgency.layer) return std::nullopt;
  return lower(a.urgency.layer, b.urgency.layer);
}

// The lane's most urgent unit of the flow, if it has room, against the one that was found so far. Whether it has room.
bool EgressQueue::consider(Lane& lane, std::size_t flow, std::int64_t room, Heads& heads) const {
  const FlowLines& of = lane.flows[flow];
  if (of.empty() || lane.in_flight + cost(next_size(of.front.rest)) > room) return false;
  if (heads[flow] == nullptr || comes_before(lane, *heads[flow], flow)) heads[flow] = &lane;
  return true;
}

std::optional<EgressQueue::Chunk> EgressQueue::take() {
  if (waiting_ == 0) return std::nullopt;
  const std::int64_t room = share().count;
  std::int64_t counted = 0;
  Heads heads{};
  const Lane* oldest = nullptr;  // with the unit that was ready first of all that have room
  const auto note_oldest = [&](const Lane& lane) {
    if (oldest == nullptr || lane.oldest_sequence < oldest->oldest_sequence) oldest = &lane;
  };
  for (const Destination seen : seen_) {
    Lane& candidate = lanes_[seen];
    counted += std::min(candidate.in_flight, room);
    if (candidate.paused || candidate.waiting == 0) continue;
    bool has_room = false;
    for (std::size_t flow = 0; flow < kFlows; ++flow) has_room |= consider(candidate, flow, room, heads);
    if (has_room) note_oldest(candidate);
  }
  // Where nothing is on its way there is room for every chunk.
  if (const auto idle = idle_oldest_.first()) {
    note_oldest(lanes_[*idle]);
    for (std::size_t flow = 0; flow < kFlows; ++flow) {
      if (const auto head = idle_heads_[flow].first()) consider(lanes_[*head], flow, room, heads);
    }
  }
  if (oldest == nullptr) return std::nullopt;

  const std::optional<Flow> first = first_of(heads);
  const Flow flow = first.value_or(turn_);
  Lane& from = *heads[index(flow)];
  FlowLines& lines = from.flows[index(flow)];
  const Front chosen = lines.front;
  const std::int64_t size = next_size(chosen.rest);
  // A smaller chunk of a less urgent unit might fit, but would make the urgent one wait longer.
  if (counted + cost(size) > limit().count) return std::nullopt;
  const bool ordered = orders_[index(flow)] == Order::kByLayer && chosen.urgency.layer >= 0;
  if (ordered && chosen.urgency.sequence > oldest->oldest_sequence &&
      chosen.urgency.layer < units_[oldest->oldest].unit.layer.index)
    ++overtakes_[index(flow)];
  if (!first) ++turns_;
  turn_ = other(flow);
  Waiting& waiting = units_[chosen.slot];
  const Chunk chunk{.destination = waiting.unit.destination, .tag = waiting.unit.tag, .offset = {waiting.taken}, .size = {size}};
  waiting.taken += size;
  lines.front.rest -= size;
  from.in_flight += cost(size);
  in_flight_ += cost(size);
  if (lines.front.rest == 0) {
    leave_line(lines);
    unlink(from, chosen.slot);
  }
  refresh(from);
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
