// What the loops of all backends have in common: posted work, signals, timers, and the end of a turn, at which the connections
// that were given frames during the turn write them together. A backend adds how its thread waits and what else it waits for.
//
// stop() ends one run(): the one in progress, or the next one if none is. Work that has not run by then waits for the next
// run() or is destroyed with the loop.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "transport/timer_queue.h"
#include "transport/transport.h"

namespace paceline::transport {

// Something that uses the loop and may outlive it (a connection whose owner has not let go of it yet).
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  virtual void on_loop_gone() = 0;  // last call; the loop is not to be touched after it
  virtual void on_turn_end() = 0;   // asked for by LoopCore::at_turn_end
};

class LoopCore : public Loop {
 public:
  LoopCore() = default;
  LoopCore(const LoopCore&) = delete;
  LoopCore& operator=(const LoopCore&) = delete;

  TimePoint now() const override { return clock_.now(); }
  void stop() override;
  void post(std::function<void()> work) override;
  std::unique_ptr<Signal> make_signal(std::function<void()> on_raised) override;
  TimerId run_after(Duration delay, std::function<void()> work) override;
  void cancel(TimerId timer) override;

  // Loop thread (or any, while the loop is not running). Members are told when the loop goes.
  void add_member(LoopMember& member);
  void remove_member(LoopMember& member) { members_.erase(&member); }
  // Calls member->on_turn_end() once, after the callback in progress (and others served with it). Once per turn and member, please.
  void at_turn_end(std::shared_ptr<LoopMember> member);

  // Before the loop is destroyed, and not while it runs: parts with all members, destroys all work that has not run.
  void shut_down();

 protected:
  // Makes the waiting thread call serve() soon. Any thread; called once per batch of news.
  virtual void wake() = 0;
  // The earliest timer is now due at `due`, earlier than before. Loop thread.
  virtual void on_earlier_timer(TimePoint due) = 0;

  // Loop thread: one turn. Runs posted work, raised signals and due timers that are there by now, then ends the turn.
  void serve();
  // Loop thread: ends a turn that the backend filled itself.
  void end_turn();
  void begin_turn() { in_turn_ = true; }

  bool stop_asked() const { return stop_.load(std::memory_order_acquire); }
  void forget_stop() { stop_.store(false, std::memory_order_release); }
  std::optional<TimePoint> next_timer() { return timers_.next_due(); }

 private:
  struct SignalState;
  class LoopSignal;

  void raise(SignalState& state);
  void ask_wake();
  void serve_posted();
  void run_posted();
  void serve_raised();
  void run_raised();
  void serve_timers();

  SystemClock clock_;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // guards the next five
  std::vector<std::function<void()>> posted_;
  std::vector<std::shared_ptr<SignalState>> raised_;
  std::size_t signals_made_ = 0;
  bool wake_asked_ = false;
  bool gone_ = false;

  // Loop thread only.
  std::vector<std::function<void()>> serving_;  // posted work being run; what a stop interrupts goes on in the next run()
  std::size_t served_ = 0;
  std::vector<std::shared_ptr<SignalState>> serving_raised_;
  std::size_t served_raised_ = 0;
  TimerQueue timers_;
  bool in_turn_ = false;
  std::vector<std::shared_ptr<LoopMember>> turn_enders_;
  std::vector<std::shared_ptr<LoopMember>> ending_;
  std::set<LoopMember*> members_;
};

}  // namespace paceline::transport
