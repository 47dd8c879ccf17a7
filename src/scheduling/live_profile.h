// What a worker knows of its own job while it runs, and the batches of pulls, and of pushes, that follow from it (iBatch,
// "Implementation"): how long each layer computes (layer_times.h); what a pull costs, fitted over the pulls that came, which counts
// for a push too. Listens to what happens in the worker. Pure; whoever tells it owns it.
//
// A layer's time is the median of its last kHistory passes. Replies of several servers arrive interleaved and in any order, so what
// is measured is how long after the first byte so many bytes had come, of the replies of an iteration that begin after backward:
// before, they wait for gradients. A pull's start-up is the shortest way there and back on the links: from asking to the first byte
// it takes longer, as gradients are still on the way and being added.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "cost/link_fit.h"
#include "scheduling/batch_plan.h"
#include "scheduling/layer_times.h"
#include "wire/event.h"

namespace paceline::scheduling {

class LiveProfile final : public wire::EventSink {
 public:
  static constexpr std::size_t kHistory = 5;
  static constexpr Iteration kFirstPlanAfter = 3;  // forward passes seen
  // Share by which the profile must have moved since the last plan: the start-up, the transfers' times, or the layers' times. How
  // far the times of layers have moved is the sum of what each has, so that one that grows as another shrinks counts.
  static constexpr double kWorthAPlan = 0.2;

  enum class Sides { kPulls, kPullsAndPushes };
  // `bytes`: of each layer, in forward order, that come over links. `message_start_up`: of a replay, what each reply takes before
  // it leaves its server, one after another. `own_server`: the one in this process, if any; its values come through memory.
  LiveProfile(std::vector<Bytes> bytes, BatchingAlgorithm algorithm, Sides sides = Sides::kPulls, Duration message_start_up = {},
              std::optional<Rank> own_server = {});

  // Of the training side kGate (what lies between two gates was computing), kForwardDone, kBackwardBegun, kGradient and
  // kBackwardDone. A gradient without kForwardDone ends the forward pass, and its layer's time then is the forward pass's.
  // kIterationDone: a plan is due, and all values are asked for. Of values kReturning and kPulled.
  void on_event(const wire::Event& event) override;
  // The shortest way there and back of a message without payload, so far.
  void on_round_trip(Duration shortest) { round_trip_ = shortest + message_start_up_; }

  struct Plan {
    Bounds bounds;
    BatchingProblem problem;  // what they were planned from
    cost::LinkFit link;
    double makespan = 0;
    std::int64_t number = 0;  // 1: the first
    struct Pushes {
      Bounds bounds;
      BatchingProblem problem;
      double makespan = 0;
    };
    std::optional<Pushes> push;  // Sides::kPullsAndPushes, and backward passes have been seen
  };
  // The newest one. There is a new one after an iteration in which the profile has moved by more than kWorthAPlan.
  const std::optional<Plan>& current() const { return current_; }

 private:
  void on_forward_done(TimePoint now);
  void on_backward_done(TimePoint now);
  void on_all_asked();
  void on_pull_begun(std::uint32_t unit, TimePoint now);
  void on_pulled(std::uint32_t unit, Bytes size, TimePoint now);
  void plan();
  std::optional<BatchingProblem> problem(cost::LinkFit& link) const;
  std::optional<BatchingProblem> push_problem(const BatchingProblem& pulls) const;
  bool moved(const BatchingProblem& pulls, const std::optional<BatchingProblem>& pushes) const;

  std::vector<Bytes> bytes_;
  BatchingAlgorithm algorithm_;
  Sides sides_;
  Duration message_start_up_;
  std::optional<Rank> own_server_;
  Iteration passes_ = 0;
  LayerTimes times_;                                     // of the passes that run
  std::vector<std::vector<double>> forward_, backward_;  // seconds in the last passes, by layer
  std::optional<Duration> round_trip_;
  bool all_asked_ = false;                                // and the forward pass that needs the replies is not over
  std::optional<TimePoint> first_byte_;                   // of this iteration's replies, later by each start-up since; of them
  std::vector<std::uint32_t> arriving_;                   // have begun and not ended,
  std::int64_t arrived_ = 0;                              // bytes have come, the last ones
  TimePoint last_byte_{};                                 // at
  std::vector<cost::LinkSample> arriving_by_, arrivals_;  // at moments between replies: of this iteration, the last ones of before
  std::optional<Plan> current_;
};

}  // namespace paceline::scheduling
