// The gate ledger of a worker where its threads and its loop meet: the lock under which all of them use it, what has been told and
// not been carried away, how long a wait may take, and why the job has failed. A GradientExchange and its Carrier share one.
//
// Threads: any. "Locked": the caller holds lock().
#pragma once

#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exchange/account.h"
#include "exchange/gate_ledger.h"
#include "session/stall.h"
#include "transport/transport.h"

namespace paceline::exchange {

struct GatehouseOptions {
  Duration stall_deadline = std::chrono::minutes(10);  // the longest that one wait may take; above 0
  // Gradients cannot be carried any more. Called at most once, on the loop; every wait then returns the same status.
  std::function<void(const Status&)> on_failed;
  // Asks all workers, this one too, how far they are; the answers come by on_reached. Called on the loop, for a wait that takes too
  // long. Empty: nobody can be asked.
  std::function<void()> ask_reached = {};
};

class Gatehouse {
 public:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr Duration kNoLimit = Duration::max();

  // What somebody waits for. Two waits for the same are one where the first was cut short.
  enum class What : std::uint8_t { kValues, kRead, kMiniBatch, kVerdict, kState };
  struct Awaited {
    What what;
    std::optional<Layer> layer{};  // of kValues and kRead; nothing: of all
    Iteration iteration = 0;       // of kValues
    bool operator==(const Awaited&) const = default;
  };

  // What the training side has told, in its order: a complete unit, or that the iteration's backward is over.
  struct Told {
    exchange::GateLedger::Complete complete;
    bool backward_done = false;
  };

  // `loop` outlives it.
  Gatehouse(const std::shared_ptr<const job::Plan>& plan, Rank worker, exchange::GateLedger::Rule rule, transport::Loop& loop,
            GatehouseOptions options);

  Lock lock() { return Lock(mutex_); }
  transport::Loop& loop() const { return loop_; }
  const job::Plan& plan() const { return *plan_; }
  const std::shared_ptr<const job::Plan>& shared_plan() const { return plan_; }
  Rank worker() const { return worker_; }

  // --- locked ---

  exchange::GateLedger& gates() { return gates_; }
  AccountBook& account() { return account_; }
  // Who hears of what happens in this worker, first of all its account. Told from any thread.
  wire::EventFan& events() { return events_; }
  std::vector<Told>& told() { return told_; }
  const Status& failure() const { return failure_; }
  // The training side has done its part of an iteration.
  void on_progress() { stall_.on_progress(loop_.now()); }
  // And computes no more: nobody waits for this worker.
  void on_last_done() { last_done_ = true; }

  // Asked when a wait has reached the stall deadline: whether it finds out who is to blame, and fails the job with it soon. Locked.
  using Blames = std::function<bool(const std::string& awaited, Duration waited)>;
  void set_blames(Blames blames) { blames_ = std::move(blames); }
  // Waits until done(), a failure, the stall deadline (kDeadline, with what describe() says), or `limit`. False: the limit has
  // passed. A call that goes on with a wait that was cut short counts from that one's beginning, which `entered` gets. Warns of a
  // wait that takes 10 times the median iteration.
  template <typename Done, typename Describe>
  Result<bool> wait(Lock& lock, Duration limit, Awaited what, Done done, Describe describe, TimePoint* entered = nullptr) {
    PACELINE_RETURN_IF_ERROR(failure_);
    const TimePoint now = loop_.now();
    const std::optional<CutShort> last = std::exchange(cut_short_, std::nullopt);
    const bool goes_on = last && last->what == what;
    const TimePoint began = goes_on ? last->began : now;
    if (entered != nullptr) *entered = began;
    if (done()) return true;
    if (waiting_++ == 0 && !goes_on) stall_.on_wait(now);  // a stall counts from the first of those that wait now
    const Result<bool> over = wait_until(lock, end_of(limit, now), {what, began}, done, describe);
    --waiting_;
    return over;
  }
  // Waits for another thread's short work, without limit.
  template <typename Done>
  void wait_for_thread(Lock& lock, Done done) {
    changed_.wait(lock, done);
  }

  // --- not locked ---

  // How far this worker is, for others that ask: the iteration whose gradients are awaited; kNoMore: it computes no more.
  static constexpr Iteration kNoMore = std::numeric_limits<Iteration>::max();
  Iteration reached();
  // A worker computes the gradients of `iteration`. Loop only.
  void on_reached(Rank worker, Iteration iteration);
  // What a wait that takes longer than the stall deadline ends with.
  Status stalled(const std::string& awaited, Duration waited) const;
  // What somebody waits for may have come.
  void wake() { changed_.notify_all(); }
  // Every wait, now and later, returns `reason`, which is not a success. The first reason stays.
  void cancel(const Status& reason);
  // cancel(), and on_failed. Loop only.
  void fail(const Status& reason);
  // The same for what other workers find too, at the same time: on_failed alone, where there is one, so that all waits end with
  // what the job fails with, and say the same on all. Loop only.
  void fail_alike(const Status& reason);

 private:
  struct CutShort {  // a wait, by its limit
    Awaited what;
    TimePoint began;
  };

  template <typename Done, typename Describe>
  Result<bool> wait_until(Lock& lock, TimePoint until, const CutShort& wait, Done done, Describe describe) {
    while (failure_.ok() && !done()) {
      if (sleep(lock, until) == Woken::kByNews || done() || !failure_.ok()) continue;
      if (loop_.now() >= until) {
        cut_short_ = wait;
        return false;
      }
      PACELINE_RETURN_IF_ERROR(look_for_stall(lock, until, describe()));
    }
    PACELINE_RETURN_IF_ERROR(failure_);
    return true;
  }
  enum class Woken { kByNews, kByTime };
  Woken sleep(Lock& lock, TimePoint until);
  static TimePoint end_of(Duration limit, TimePoint now);
  Status look_for_stall(Lock& lock, TimePoint until, const std::string& awaited);
  void warn(const std::string& awaited, Duration waited, Duration median);
  bool find_out(const std::string& awaited, Duration waited);
  bool still_stalled() const;
  // What to do when it is known which others are late; "": nobody is, as far as is known.
  using Then = std::function<void(const std::string& late)>;
  void ask_who_is_late(Duration limit, Then then);
  void answer();

  std::shared_ptr<const job::Plan> plan_;
  Rank worker_;
  transport::Loop& loop_;
  GatehouseOptions options_;
  bool reported_ = false;  // on_failed has been called; loop only
  struct Question {
    Iteration asked_in = 0;
    std::map<Rank, Iteration> reached;  // by those who have answered
    std::vector<Then> then;
    transport::Loop::TimerId due = 0;
  };
  std::optional<Question> question_;  // how far all are; loop only

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  exchange::GateLedger gates_;
  AccountBook account_{gates_};
  wire::EventFan events_;
  std::vector<Told> told_;
  Blames blames_;
  session::StallDetector stall_;
  int waiting_ = 0;                    // threads
  std::optional<CutShort> cut_short_;  // the last wait was
  bool last_done_ = false;             // this worker computes no more
  bool blaming_ = false;               // somebody finds out who is to blame for a stall
  Status failure_;
};

}  // namespace paceline::exchange
