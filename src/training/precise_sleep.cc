#include "training/precise_sleep.h"

#include <cerrno>
#include <ctime>

#include <sys/prctl.h>

namespace paceline::training {

void want_precise_sleep() { prctl(PR_SET_TIMERSLACK, 1UL); }

void sleep_until(TimePoint deadline) {
  // steady_clock counts what CLOCK_MONOTONIC counts.
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t at = deadline.time_since_epoch().count();
  const timespec wanted{at / kSecond, at % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wanted, nullptr) == EINTR) {
  }
}

}  // namespace paceline::training
