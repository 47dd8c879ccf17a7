#include "sync/event_order.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

namespace paceline::sync {
namespace {

// Of one row in a stretch, at most: enough to make up for the heap, few enough that a stretch of 1000 workers stays in a cache.
constexpr std::int64_t kRun = 8;
constexpr double kRunOut = std::numeric_limits<double>::infinity();  // of a row without further events
constexpr EndEvent kNever{kRunOut, 0, 0};

bool before(const EndEvent& a, const EndEvent& b) {
  if (a.time != b.time) return a.time < b.time;
  return a.worker != b.worker ? a.worker < b.worker : a.iteration < b.iteration;
}

}  // namespace

EventOrder::EventOrder(const EndTimes& ends) : ends_(ends) {
  for (std::size_t p = 0; p < ends.workers(); ++p) heads_.push_back({ends.at(p, 1), static_cast<std::uint32_t>(p), 1});
}

const std::vector<EndEvent>& EventOrder::next_stretch() {
  const EndEvent last = heaped_ ? reach_through_heap() : reach_through_all();
  gather(last);
  sort();
  return sorted_;
}

// Where the stretch has to end because of one row; a row of which little is left does not say.
EndEvent EventOrder::run_end(const EndEvent& head) const {
  const std::int64_t end = head.iteration + kRun - 1;
  if (end >= ends_.count(head.worker)) return kNever;
  return {ends_.at(head.worker, end), head.worker, end};
}

EndEvent EventOrder::reach_through_all() {
  EndEvent last = kNever;
  for (const EndEvent& head : heads_) {
    if (const EndEvent end = run_end(head); before(end, last)) last = end;
  }
  reached_.clear();
  for (std::size_t node = 0; node < heads_.size(); ++node) {
    if (!before(last, heads_[node])) reached_.push_back(node);
  }
  return last;
}

// What stands below a head that is too late is too late as well.
EndEvent EventOrder::reach_through_heap() {
  EndEvent last = kNever;
  reached_.clear();
  if (!heads_.empty() && heads_[0].time < kRunOut) reached_.push_back(0);
  for (std::size_t i = 0; i < reached_.size(); ++i) {  // ascending, since a node's children come after those of nodes before it
    const std::size_t node = reached_[i];
    if (const EndEvent end = run_end(heads_[node]); before(end, last)) last = end;
    for (std::size_t child = 2 * node + 1; child <= 2 * node + 2 && child < heads_.size(); ++child) {
      if (!before(last, heads_[child])) reached_.push_back(child);
    }
  }
  return last;
}

void EventOrder::gather(const EndEvent& last) {
  gathered_.clear();
  for (const std::size_t node : reached_) {
    EndEvent& event = heads_[node];
    const std::int64_t count = ends_.count(event.worker);
    while (!before(last, event)) {
      gathered_.push_back(event);
      event.time = ++event.iteration <= count ? ends_.at(event.worker, event.iteration) : kRunOut;
    }
  }
  const bool was_heaped = std::exchange(heaped_, reached_.size() < heads_.size() / 4);
  if (heaped_ && was_heaped) {
    for (const std::size_t node : std::views::reverse(reached_)) sink(node);
    return;
  }
  std::erase_if(heads_, [](const EndEvent& head) { return head.time == kRunOut; });
  if (!heaped_) return;
  for (std::size_t node = heads_.size() / 2; node-- > 0;) sink(node);
}

// Restores the heap below a node whose head may be too late for its place.
void EventOrder::sink(std::size_t node) {
  const EndEvent head = heads_[node];
  for (;;) {
    std::size_t child = 2 * node + 1;
    if (child >= heads_.size()) break;
    if (child + 1 < heads_.size() && before(heads_[child + 1], heads_[child])) ++child;
    if (!before(heads_[child], head)) break;
    heads_[node] = heads_[child];
    node = child;
  }
  heads_[node] = head;
}

// Each event goes to its place among as many equal parts of the stretch's time as there are events; the few of a part are compared.
void EventOrder::sort() {
  const std::size_t count = gathered_.size();
  sorted_.resize(count);
  if (count == 0) return;
  double first = gathered_.front().time, latest = first;
  for (const EndEvent& event : gathered_) {
    first = std::min(first, event.time);
    latest = std::max(latest, event.time);
  }
  const double parts_per_time = static_cast<double>(count - 1) / (latest - first);
  const double scale = parts_per_time < 1e300 ? parts_per_time : 0;  // no time at all, or hardly any: all are one part
  const auto part_of = [&](const EndEvent& event) { return static_cast<std::size_t>((event.time - first) * scale); };

  places_.assign(count + 1, 0);
  for (const EndEvent& event : gathered_) ++places_[part_of(event) + 1];
  for (std::size_t part = 1; part <= count; ++part) places_[part] += places_[part - 1];
  for (const EndEvent& event : gathered_) sorted_[places_[part_of(event)]++] = event;
  for (std::size_t part = 0, begin = 0; part < count; begin = places_[part++]) {
    if (places_[part] - begin > 1) {
      std::sort(sorted_.begin() + static_cast<std::ptrdiff_t>(begin), sorted_.begin() + static_cast<std::ptrdiff_t>(places_[part]),
                before);
    }
  }
}

}  // namespace paceline::sync
