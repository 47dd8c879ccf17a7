// At what pace the workers of a job ran, as the pacing server saw it: staleness, supersteps, and predicted beside real arrivals,
// for the report; and every iteration and superstep as it ends, for `--pace`. Belongs to the server's loop.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "report/report.h"
#include "sync/pace_rule.h"
#include "wire/event.h"

namespace paceline::report {

class PaceRecord final : public wire::EventSink {
 public:
  // `tell` hears an object for each iteration and superstep that has ended (docs/cli.md, "Trace"); empty: nobody does.
  using Tell = std::function<void(Json event)>;
  explicit PaceRecord(Tell tell) : tell_(std::move(tell)) {}

  // An iteration begins with kStarted, when the synchronisation model lets the worker start it, and ends with kEnded.
  void on_event(const wire::Event& event) override;
  void on_superstep(const sync::Superstep& superstep);
  // A barrier's place has been computed.
  void on_predicted(Duration took) { longest_prediction_ = std::max(longest_prediction_, took); }

  // "sync_detail" of the report.
  Json detail() const;

 private:
  static constexpr std::size_t kStalenessValues = 256;  // the last one stands for itself and all above
  struct Running {
    TimePoint began{};
    std::int64_t staleness = 0;
  };
  // Of all predicted supersteps together.
  struct Predictions {
    std::int64_t supersteps = 0, arrivals = 0;
    double error = 0, absolute_error = 0;  // sums of real - predicted
    double length = 0;                     // sum of the real lengths
    double waiting_predicted = 0, waiting_real = 0, room_predicted = 0, room_real = 0;
  };
  void on_started(Rank worker, std::int64_t staleness, TimePoint now);
  void on_ended(Rank worker, Iteration iteration, TimePoint now);
  double seconds_at(TimePoint time) const { return origin_ ? seconds(time - *origin_) : 0; }

  Tell tell_;
  std::optional<TimePoint> origin_;  // the first start
  std::vector<Running> running_;     // by worker
  std::vector<std::int64_t> staleness_;
  std::int64_t largest_staleness_ = 0;
  std::int64_t supersteps_ = 0, uneven_supersteps_ = 0;
  std::vector<std::int64_t> in_supersteps_;  // by worker: iterations
  Predictions predictions_;
  Duration longest_prediction_{};
};

}  // namespace paceline::report
