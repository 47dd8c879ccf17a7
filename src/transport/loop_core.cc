#include "transport/loop_core.h"

#include <algorithm>

namespace paceline::transport {

struct LoopCore::SignalState : std::enable_shared_from_this<LoopCore::SignalState> {
  LoopCore* loop = nullptr;
  std::function<void()> on_raised;
  std::atomic<bool> pending = false;
  bool alive = true;  // loop thread, or the loop is not running
};

class LoopCore::LoopSignal final : public Signal {
 public:
  explicit LoopSignal(std::shared_ptr<SignalState> state) : state_(std::move(state)) {}
  ~LoopSignal() override { state_->alive = false; }
  void raise() override {
    if (!state_->pending.exchange(true, std::memory_order_acq_rel)) state_->loop->raise(*state_);
  }

 private:
  std::shared_ptr<SignalState> state_;
};

void LoopCore::stop() {
  stop_.store(true, std::memory_order_release);
  wake();
}

void LoopCore::ask_wake() {
  if (std::exchange(wake_asked_, true)) return;
  wake();
}

void LoopCore::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  posted_.push_back(std::move(work));
  ask_wake();
}

std::unique_ptr<Signal> LoopCore::make_signal(std::function<void()> on_raised) {
  auto state = std::make_shared<SignalState>();
  state->loop = this;
  state->on_raised = std::move(on_raised);
  const std::lock_guard lock(mutex_);
  ++signals_made_;
  // Each signal stands in the list at most once, and a destroyed one at most once more: raise() never has to allocate.
  if (raised_.capacity() < signals_made_) raised_.reserve(std::max(signals_made_, 2 * raised_.capacity()));
  return std::make_unique<LoopSignal>(std::move(state));
}

void LoopCore::raise(SignalState& state) {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  raised_.push_back(state.shared_from_this());
  ask_wake();
}

Loop::TimerId LoopCore::run_after(Duration delay, std::function<void()> work) {
  const auto before = timers_.next_due();
  const TimePoint due = now() + std::max(delay, Duration::zero());
  const TimerId id = timers_.add(due, std::move(work));
  if (!before || due < *before) on_earlier_timer(due);
  return id;
}

void LoopCore::cancel(TimerId timer) { timers_.cancel(timer); }

void LoopCore::add_member(LoopMember& member) {
  members_.insert(&member);
  // Here, so that ending a turn never has to allocate, however seldom it is asked for.
  for (auto* const list : {&turn_enders_, &ending_}) {
    if (list->capacity() < members_.size()) list->reserve(2 * members_.size());
  }
}

void LoopCore::at_turn_end(std::shared_ptr<LoopMember> member) {
  turn_enders_.push_back(std::move(member));
  if (!in_turn_) wake();
}

void LoopCore::serve() {
  in_turn_ = true;
  serve_posted();
  serve_raised();
  serve_timers();
  end_turn();
}

void LoopCore::serve_posted() {
  run_posted();  // what a stop left over
  if (stop_asked()) return;
  {
    const std::lock_guard lock(mutex_);
    wake_asked_ = false;
    serving_.swap(posted_);
  }
  run_posted();
}

void LoopCore::run_posted() {
  while (served_ < serving_.size()) {
    if (stop_asked()) return;
    const auto work = std::exchange(serving_[served_++], nullptr);
    work();
  }
  serving_.clear();
  served_ = 0;
}

void LoopCore::serve_raised() {
  run_raised();
  if (stop_asked()) return;
  {
    const std::lock_guard lock(mutex_);
    if (serving_raised_.capacity() < raised_.capacity()) serving_raised_.reserve(raised_.capacity());
    serving_raised_.swap(raised_);
  }
  run_raised();
}

void LoopCore::run_raised() {
  while (served_raised_ < serving_raised_.size()) {
    if (stop_asked()) return;
    const auto state = std::move(serving_raised_[served_raised_++]);
    // Cleared first: a raise during the callback counts as news.
    state->pending.exchange(false, std::memory_order_acq_rel);
    if (state->alive) state->on_raised();
  }
  serving_raised_.clear();
  served_raised_ = 0;
}

void LoopCore::serve_timers() {
  const TimePoint until = now();
  while (!stop_asked()) {
    const auto work = timers_.take_due(until);
    if (!work) return;
    work();
  }
}

void LoopCore::end_turn() {
  // One round: what the members' callbacks queue now is for the next turn, so that reading and timers get theirs.
  ending_.swap(turn_enders_);
  for (std::size_t i = 0; i < ending_.size(); ++i) {  // a callback may add members, for which the list is made longer
    const auto member = std::move(ending_[i]);
    member->on_turn_end();
  }
  ending_.clear();
  in_turn_ = false;
  const bool unfinished = served_ < serving_.size() || served_raised_ < serving_raised_.size() || !turn_enders_.empty();
  if (unfinished && !stop_asked()) wake();
}

void LoopCore::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  while (!members_.empty()) {
    LoopMember* const member = *members_.begin();
    members_.erase(members_.begin());
    member->on_loop_gone();
  }
  // Destroying work may destroy connections and signals of this loop, which are cut off by now.
  turn_enders_.clear();
  serving_.clear();
  posted_.clear();
  serving_raised_.clear();
  raised_.clear();
  served_ = served_raised_ = 0;
  timers_ = TimerQueue();
}

}  // namespace paceline::transport
