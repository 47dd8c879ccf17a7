// Sleeps that end when they should: a worker that stands for a computation must not be late by what the kernel likes to save.
#pragma once

#include "base/quantity.h"

namespace paceline::training {

// Makes this thread's timers exact to the nanosecond the kernel can do (it groups wake-ups within 50 us otherwise). Once per
// thread.
void want_precise_sleep();

// Returns at `deadline` or, when the processor is busy, as soon as the thread gets it; at once when it is past. Deadlines that
// follow from each other, and not from when the last sleep ended, do not drift.
void sleep_until(TimePoint deadline);

}  // namespace paceline::training
