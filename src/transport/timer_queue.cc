#include "transport/timer_queue.h"

#include <algorithm>
#include <utility>

namespace paceline::transport {
namespace {

std::uint32_t slot_of(std::uint64_t id) { return static_cast<std::uint32_t>(id); }
std::uint32_t generation_of(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }

}  // namespace

bool TimerQueue::later(const Entry& a, const Entry& b) { return a.due != b.due ? a.due > b.due : a.order > b.order; }

bool TimerQueue::live(const Entry& entry) const { return slots_[slot_of(entry.id)].generation == generation_of(entry.id); }

std::uint64_t TimerQueue::add(TimePoint due, std::function<void()> work) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot].work = std::move(work);
  const std::uint64_t id = (std::uint64_t{slots_[slot].generation} << 32) | slot;
  heap_.push_back({due, ++asked_, id});
  std::push_heap(heap_.begin(), heap_.end(), later);
  return id;
}

std::function<void()> TimerQueue::release(std::uint64_t id) {
  Slot& slot = slots_[slot_of(id)];
  ++slot.generation;
  free_.push_back(slot_of(id));
  return std::exchange(slot.work, nullptr);
}

std::function<void()> TimerQueue::cancel(std::uint64_t id) {
  if (slot_of(id) >= slots_.size() || slots_[slot_of(id)].generation != generation_of(id)) return nullptr;
  auto work = release(id);
  // A timer that is pushed back for every frame would otherwise fill the heap with its former selves.
  if (++dead_ > 16 + heap_.size() / 2) drop_dead();
  return work;
}

void TimerQueue::drop_dead() {
  std::erase_if(heap_, [this](const Entry& entry) { return !live(entry); });
  std::make_heap(heap_.begin(), heap_.end(), later);
  dead_ = 0;
}

std::optional<TimePoint> TimerQueue::next_due() {
  while (!heap_.empty() && !live(heap_.front())) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    --dead_;
  }
  if (heap_.empty()) return std::nullopt;
  return heap_.front().due;
}

std::function<void()> TimerQueue::take_due(TimePoint now) {
  const auto due = next_due();
  if (!due || *due > now) return nullptr;
  const std::uint64_t id = heap_.front().id;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
  return release(id);
}

}  // namespace paceline::transport
