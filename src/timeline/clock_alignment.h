// Sets the clock of another process against the own one, from questions and answers alone (Cristian, "Probabilistic clock
// synchronization", 1989, with the drift as a second unknown). Pure.
//
// An answer says that the other clock showed `remote` somewhere between `sent` and `received` of the own clock, wherever the
// message lost its time. A clock that drifts evenly is a line; the lines that keep to all answers are a polygon in the plane of
// (own time at the begin, own time at the end of what is to be aligned). Its middle is the estimate. Half its width is the error:
// no other line is possible, however lopsided the delays were. So the quickest answers decide, slow ones do no harm.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::timeline {

struct ClockSample {  // nanoseconds
  std::int64_t sent = 0, remote = 0, received = 0;
};

// From the other clock to the own one.
struct ClockMap {
  std::int64_t remote = 0, local = 0;  // at the same moment
  double drift = 0;                    // own seconds in a second of the other clock, less 1
  double error = 0;                    // nanoseconds that to_local() may be off, between the begin and end it was made for

  std::int64_t to_local(std::int64_t of_remote) const {
    const std::int64_t since = of_remote - remote;
    return local + since + static_cast<std::int64_t>(drift * static_cast<double>(since));
  }
};

class ClockAlignment {
 public:
  // No clock drifts more against another: quartz does 1e-4, and Linux corrects by at most 5e-4.
  static constexpr double kMostDrift = 6e-4;
  // Beyond it, the slower of each two answers in a row are forgotten.
  static constexpr std::size_t kMostSamples = 2048;

  // Requires: sent <= received; in the order of time.
  void add(const ClockSample& sample);
  std::size_t samples() const { return samples_.size(); }

  // For moments from `begin` to `end` of the other clock. Nothing without an answer. Answers that contradict each other (a clock
  // that was set, or does not go evenly) count against the error. O(n log n).
  std::optional<ClockMap> map(std::int64_t begin, std::int64_t end) const;

 private:
  std::vector<ClockSample> samples_;
};

}  // namespace paceline::timeline
