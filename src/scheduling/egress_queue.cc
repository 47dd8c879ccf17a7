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

void EgressQueue::set_rules(const EgressRules& rules) {
  orders_ = {rules.pushes, rules.replies};
  pushes_first_ = rules.pushes_first;
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
  make_room_for_lanes();
  ++existing_;
  added.exists = true;
  added.paused = true;
  return static_cast<Destination>(&added - lanes_.data());
}

bool EgressQueue::are_few() const { return lanes_.size() <= kFew; }

void EgressQueue::make_room_for_lanes() {
  if (are_few() || lanes_.size() <= orders_of_lanes_.oldest.size()) return;
  const std::size_t more = 2 * lanes_.size();
  for (auto& heads : orders_of_lanes_.heads) heads.grow(more);
  orders_of_lanes_.oldest.grow(more);
  orders_of_lanes_.loads.grow(more);
  for (const Lane& lane : lanes_) keep_order(lane);
}

void EgressQueue::remove(Destination destination) {
  Lane& removed = lane(destination);
  units_.clear(removed.lines);
  if (!removed.silent) in_flight_ -= removed.in_flight;
  removed.in_flight = 0;
  removed.silent = false;
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
  const bool active = (!lane.silent && lane.in_flight > 0) || lane.may_leave();
  active_ += static_cast<std::int64_t>(active) - static_cast<std::int64_t>(lane.active);
  lane.active = active;
  keep_order(lane);
}

void EgressQueue::keep_order(const Lane& lane) {
  if (are_few()) return;
  const auto player = static_cast<std::uint32_t>(&lane - lanes_.data());
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    const bool has_head = lane.may_leave() && !lane.lines.flows[flow].empty();
    orders_of_lanes_.heads[flow].set(player, has_head ? std::optional(urgency_of(lane, flow)) : std::nullopt);
  }
  orders_of_lanes_.oldest.set(player, lane.may_leave() ? std::optional(lane.lines.oldest_sequence) : std::nullopt);
  orders_of_lanes_.loads.set(player, lane.in_flight > 0 && !lane.silent ? std::optional(-lane.in_flight) : std::nullopt);
}

// Requires: the flow has a unit there.
EgressQueue::Urgency EgressQueue::urgency_of(const Lane& lane, std::size_t flow) {
  const WaitingUnits::Front& front = lane.lines.flows[flow].front;
  return {front.layer, front.turn ? 0 : lane.in_flight, front.turn.value_or(0), front.sequence};
}

bool EgressQueue::has_room(const Lane& lane, std::size_t flow, std::int64_t room) const {
  const WaitingUnits::FlowLines& of = lane.lines.flows[flow];
  return !of.empty() && lane.in_flight + cost(next_size(of.front.rest)) <= room;
}

void EgressQueue::on_ready(const Unit& unit) {
  PACELINE_CHECK(unit.size.count >= 0, "a unit of {} bytes", unit.size.count);
  Lane& to = lane(unit.destination);
  Unit waiting = unit;
  // First in, first out is the same order with all layers alike.
  if (orders_[index(unit.flow)] == Order::kFirstInFirstOut) waiting.layer.index = std::min(waiting.layer.index, 0);
  units_.add(to.lines, waiting);
  refresh(to);
}

// A message of a few bytes, of the control plane for example, makes no second destination.
Bytes EgressQueue::limit() const {
  if (active_ <= 1 || options_.wide <= options_.window) return options_.window;
  const std::int64_t chunk = options_.chunk.count;
  std::int64_t holding = 0;
  if (are_few())
    holding = std::ranges::count_if(lanes_, [&](const Lane& lane) { return lane.in_flight >= chunk && !lane.silent; });
  else
    orders_of_lanes_.loads.each_before(1 - chunk, [&](std::uint32_t) { ++holding; });
  return holding > 1 ? options_.wide : options_.window;
}

Bytes EgressQueue::share() const {
  const auto window = limit().count;
  const auto chunk = options_.chunk.count;
  if (active_ <= 1) return {window};
  return {std::min(std::max(2 * chunk, 2 * window / active_), window - chunk)};
}

// The flow that comes before the other whoever left last; nothing: they take turns.
std::optional<Flow> EgressQueue::first_of(const Survey& survey) const {
  const std::size_t push = index(Flow::kPush), reply = index(Flow::kReply);
  const Lane *pushes = survey.heads[push], *replies = survey.heads[reply];
  if (pushes == nullptr || replies == nullptr) return pushes == nullptr ? Flow::kReply : Flow::kPush;
  const auto lower = [](auto a, auto b) { return a < b ? Flow::kPush : Flow::kReply; };
  const WaitingUnits::Front &a = pushes->lines.flows[push].front, &b = replies->lines.flows[reply].front;
  const bool a_controls = a.layer < 0, b_controls = b.layer < 0;
  if (a_controls != b_controls) return a_controls ? Flow::kPush : Flow::kReply;
  const Iteration of_a = units_.unit(a.slot).iteration, of_b = units_.unit(b.slot).iteration;
  if (pushes_first_) return of_b < of_a ? Flow::kReply : Flow::kPush;
  if (orders_[0] == Order::kFirstInFirstOut || orders_[1] == Order::kFirstInFirstOut) return std::nullopt;
  if (of_a != of_b) return lower(of_a, of_b);
  if (a.layer == b.layer) return std::nullopt;
  return lower(a.layer, b.layer);
}

EgressQueue::Survey EgressQueue::survey(std::int64_t room) { return are_few() ? look_at_all(room) : ask_orders(room); }

EgressQueue::Survey EgressQueue::look_at_all(std::int64_t room) {
  Survey found;
  for (Lane& lane : lanes_) {
    if (!lane.silent) found.counted += std::min(lane.in_flight, room);
    if (!lane.may_leave()) continue;
    bool any = false;
    for (std::size_t flow = 0; flow < kFlows; ++flow) {
      if (!has_room(lane, flow, room)) continue;
      any = true;
      Lane*& head = found.heads[flow];
      if (head == nullptr || urgency_of(lane, flow) < urgency_of(*head, flow)) head = &lane;
    }
    if (any && (found.oldest == nullptr || lane.lines.oldest_sequence < found.oldest->lines.oldest_sequence)) found.oldest = &lane;
  }
  return found;
}

EgressQueue::Survey EgressQueue::ask_orders(std::int64_t room) {
  Survey found{.counted = in_flight_};
  orders_of_lanes_.loads.each_before(-room, [&](std::uint32_t lane) { found.counted -= lanes_[lane].in_flight - room; });
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    const auto head = orders_of_lanes_.heads[flow].first([&](std::uint32_t lane) { return has_room(lanes_[lane], flow, room); });
    if (head) found.heads[flow] = &lanes_[*head];
  }
  const auto oldest = orders_of_lanes_.oldest.first(
      [&](std::uint32_t lane) { return has_room(lanes_[lane], 0, room) || has_room(lanes_[lane], 1, room); });
  if (oldest) found.oldest = &lanes_[*oldest];
  return found;
}

std::optional<EgressQueue::Chunk> EgressQueue::take() {
  if (units_.count() == 0) return std::nullopt;
  const Survey found = survey(share().count);
  if (found.oldest == nullptr) return std::nullopt;
  const std::optional<Flow> first = first_of(found);
  const Flow flow = first.value_or(turn_);
  Lane& from = *found.heads[index(flow)];
  const WaitingUnits::Front chosen = from.lines.flows[index(flow)].front;
  const std::int64_t size = next_size(chosen.rest);
  // A smaller chunk of a less urgent unit might fit, but would make the urgent one wait longer.
  if (found.counted + cost(size) > limit().count) return std::nullopt;
  const WaitingUnits::Lines& oldest = found.oldest->lines;
  const bool ordered = orders_[index(flow)] == Order::kByLayer && chosen.layer >= 0;
  if (ordered && chosen.sequence > oldest.oldest_sequence && chosen.layer < units_.unit(oldest.oldest).layer.index)
    ++overtakes_[index(flow)];
  if (!first) ++turns_;
  turn_ = other(flow);
  const Unit& unit = units_.unit(chosen.slot);
  Chunk chunk{.destination = unit.destination, .tag = unit.tag, .offset = {}, .size = {size}};
  chunk.offset.count = units_.take(from.lines, index(flow), size);
  from.in_flight += cost(size);
  in_flight_ += cost(size);
  refresh(from);
  return chunk;
}

void EgressQueue::on_acknowledged(Destination destination, Bytes size) {
  Lane& from = lane(destination);
  PACELINE_CHECK(from.in_flight >= cost(size.count), "{} bytes acknowledged, {} on their way", cost(size.count), from.in_flight);
  if (std::exchange(from.silent, false)) in_flight_ += from.in_flight;
  from.in_flight -= cost(size.count);
  in_flight_ -= cost(size.count);
  refresh(from);
}

void EgressQueue::on_silence(Destination destination) {
  Lane& silent = lane(destination);
  if (std::exchange(silent.silent, true)) return;
  in_flight_ -= silent.in_flight;
  refresh(silent);
}

Bytes EgressQueue::in_flight(Destination destination) const { return {lanes_.at(destination).in_flight}; }

std::size_t EgressQueue::waiting(Destination destination) const { return lanes_.at(destination).lines.waiting; }

}  // namespace paceline::scheduling
