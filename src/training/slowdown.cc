#include "training/slowdown.h"

#include "training/precise_sleep.h"

namespace paceline::training {

Slowdown::Slowdown(job::ComputeSpeed speed, Rank rank) : speed_(std::move(speed)), rank_(rank) {}

void Slowdown::begin(Iteration iteration) {
  if (speed_.changes_anything()) slowness_ = slowness(speed_, rank_, iteration);
  resume();
}

void Slowdown::stretch() {
  if (slowness_ <= 1) return;
  sleep_until(mark_ + from_seconds(seconds(clock_.now() - mark_) * slowness_));
  resume();
}

void Slowdown::resume() {
  if (slowness_ > 1) mark_ = clock_.now();
}

}  // namespace paceline::training
