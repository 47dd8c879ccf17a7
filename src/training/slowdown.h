// Makes real computing take as long as on a slower machine (compute_speed.h): whenever the computing stops, it sleeps for what is
// missing. So every gate and every gradient is later in proportion, as if the processor were slower. Training thread only.
#pragma once

#include "base/clock.h"
#include "job/compute_speed.h"

namespace paceline::training {

class Slowdown {
 public:
  Slowdown(job::ComputeSpeed speed, Rank rank);

  // Computing for `iteration` begins.
  void begin(Iteration iteration);
  // Computing stops: returns when it has taken t * slowness(), but never before now, since nothing makes a machine faster. Then it
  // goes on.
  void stretch();
  // Computing goes on; what was between stretch() and now was none.
  void resume();

 private:
  const SystemClock clock_;
  const job::ComputeSpeed speed_;
  const Rank rank_;
  double slowness_ = 1;
  TimePoint mark_{};
};

}  // namespace paceline::training
