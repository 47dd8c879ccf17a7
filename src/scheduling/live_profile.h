// What a worker knows of its own job while it runs, and the batches of pulls, and of pushes, that follow from it (iBatch, section
// 3.1): how long each layer computes (layer_times.h); what a pull costs, fitted over the pulls that came, which counts for a push
// too. Pure: events with their times in, batches out. Whoever drives it owns it.
//
// A layer's time is the median of its last kHistory passes. A pull is one batch from all servers, whose replies arrive interleaved:
// it is over when the last of them has come. Its time counts when the batch before it had come just before: then it waited for
// nothing but the link, and what lies between the two is its own. Sizes that are rare are kept too, so the layer-wise pulls of the
// first iterations, of many sizes, go on to say what a start-up costs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "cost/link_fit.h"
#include "scheduling/batching.h"
#include "scheduling/layer_times.h"
#include "scheduling/schedule.h"

namespace paceline::scheduling {

// Of a valid problem. Backward greedy falls back to one batch when it gets stuck.
Bounds batches_of(const BatchingProblem& problem, BatchingAlgorithm algorithm);

class LiveProfile {
 public:
  static constexpr std::size_t kHistory = 5;
  static constexpr Iteration kFirstPlanAfter = 3;  // forward passes seen
  // Share by which the profile must have moved since the last plan: the start-up, the transfers' times, or the layers' times. How
  // far the times of layers have moved is the sum of what each has, so that one that grows as another shrinks counts.
  static constexpr double kWorthAPlan = 0.2;

  enum class Sides { kPulls, kPullsAndPushes };
  // `bytes`: of each layer, in forward order, from all servers.
  LiveProfile(std::vector<Bytes> bytes, BatchingAlgorithm algorithm, Sides sides = Sides::kPulls);

  // The training thread stood at the gate of `layer` from `entered` to `opened`; what lies between two gates was computing.
  void on_gate(Layer layer, TimePoint entered, TimePoint opened);
  void on_forward_done(TimePoint now);
  // A gradient without on_forward_done ends the forward pass, and its layer's time then is the forward pass's.
  void on_backward_begun(TimePoint now);
  void on_gradient(Layer layer, TimePoint now);
  void on_backward_done(TimePoint now);

  void on_asked();  // the newest plan's batches were asked for; every layer for itself when there is none
  // A server's part of a batch, one with `layer`, has come.
  void on_pulled(Layer layer, Bytes size, TimePoint now);

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
  // After a pass: new batches, when there are none yet or the profile has moved by more than kWorthAPlan.
  std::optional<Plan> plan();

  // The newest one.
  const std::optional<Plan>& current() const { return current_; }

 private:
  std::optional<BatchingProblem> problem(cost::LinkFit& link) const;
  std::optional<BatchingProblem> push_problem(const BatchingProblem& pulls) const;
  bool moved(const BatchingProblem& pulls, const std::optional<BatchingProblem>& pushes) const;

  struct Pull {
    std::int64_t bytes = 0, missing = 0;
  };
  std::vector<Bytes> bytes_;
  BatchingAlgorithm algorithm_;
  Sides sides_;
  Iteration passes_ = 0;
  LayerTimes times_;                                     // of the passes that run
  std::vector<std::vector<double>> forward_, backward_;  // seconds in the last passes, by layer
  std::vector<Pull> asked_;                              // the batches that were asked for last, in forward order
  std::vector<std::size_t> asked_with_;                  // the batch of each layer
  std::size_t came_ = 0;                                 // of asked_, those that came in order,
  std::optional<TimePoint> last_pulled_;                 // and when the last of them did
  std::map<std::int64_t, std::vector<double>> pulls_;    // the last ones by size
  std::optional<Plan> current_;
};

}  // namespace paceline::scheduling
