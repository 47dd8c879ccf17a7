// Alive, but no progress: the second of the two limits (ARCHITECTURE.md, Errors; the first is silence, which Endpoint watches).
// Pure: told of progress and of waiting, asked with the time. One owner.
//
// An iteration that takes 10 times the median of the last ones, and at least a second, deserves one warning; `limit` without
// progress is a failure. The first iteration has nothing to be compared with, so only `limit` applies to it. Whoever knows when it
// began to wait for others says so: then both count from there, since computing, evaluating or saving is nobody's stall.
#pragma once

#include <vector>

#include "base/quantity.h"

namespace paceline::session {

class StallDetector {
 public:
  enum class Verdict { kFine, kWarn, kFail };  // kWarn once per stall

  // `start`: when the first iteration begins. limit: above 0.
  explicit StallDetector(TimePoint start, Duration limit = std::chrono::minutes(10));

  // An iteration has ended and the next begins.
  void on_progress(TimePoint now);
  // The owner has done its own part for now and waits. A second wait of the same iteration is not warned of again.
  void on_wait(TimePoint now) { waiting_since_ = now; }
  // kFail from the start of the iteration, or its last on_wait, + limit on, every time; else kWarn the first time warn_after() is
  // reached; else kFine.
  Verdict check(TimePoint now);

  Duration waited(TimePoint now) const { return now - waiting_since_; }
  // Of the last 128 iterations, the lower middle one of an even number; 0 before the first.
  Duration median() const;
  // How long an iteration, or a wait, may take before the warning; the limit before the first iteration has ended.
  Duration warn_after() const;
  // When check() may next say something new.
  TimePoint next_due() const;

 private:
  static constexpr std::size_t kRemembered = 128;

  TimePoint last_;           // start of the iteration
  TimePoint waiting_since_;  // the same, or the latest on_wait
  Duration limit_;
  std::vector<Duration> recent_;  // a ring
  std::size_t next_ = 0;
  Duration median_{};
  bool warned_ = false;
};

}  // namespace paceline::session
