#include "membership/verdict.h"

#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

const wire::Stop kCause{wire::StopKind::kFailed, ErrorKind::kIo, "the disk burns"};

TEST(Verdict, EachPhaseEndsWhenTheLastOfItsOwnHasCome) {
  Standing job{.free_seats = 1, .unready = 2, .working = 2, .staying = 3};
  EXPECT_EQ(verdict(job).phase, Phase::kGathering);
  job.free_seats = 0;
  EXPECT_EQ(verdict(job).phase, Phase::kPreparing);
  job.unready = 0;
  EXPECT_EQ(verdict(job).phase, Phase::kRunning);
  job.working = 0;
  EXPECT_EQ(verdict(job).phase, Phase::kEnding);
  EXPECT_EQ(verdict(job).stop, wire::Stop{}) << "done";
  job.staying = 0;
  EXPECT_EQ(verdict(job).phase, Phase::kEnded);
}

TEST(Verdict, ACauseEndsAnyPhaseAndIsTheReasonWhateverElseIsSo) {
  for (int bits = 0; bits < 32; ++bits) {
    const Standing job{.free_seats = bits & 1,
                       .unready = bits >> 1 & 1,
                       .working = bits >> 2 & 1,
                       .staying = bits >> 3 & 1,
                       .cause = kCause,
                       .asked = bits >> 4 != 0 ? "a signal" : ""};
    EXPECT_EQ(verdict(job).phase, job.staying > 0 ? Phase::kEnding : Phase::kEnded) << bits;
    EXPECT_EQ(verdict(job).stop, kCause) << bits;
  }
}

TEST(Verdict, AJobThatWasAskedToStopGoesOnUntilAllHaveReported) {
  Standing job{.working = 1, .staying = 2, .asked = "worker 1 was asked to end"};
  EXPECT_EQ(verdict(job).phase, Phase::kRunning);
  job.working = 0;
  EXPECT_EQ(verdict(job).phase, Phase::kEnding);
  EXPECT_EQ(verdict(job).stop, (wire::Stop{wire::StopKind::kInterrupted, ErrorKind::kCancelled, "worker 1 was asked to end"}));
}

// Whatever comes next, a job never goes back.
TEST(Verdict, NothingThatIsCountedDownLeadsToAnEarlierPhase) {
  for (int i = 0; i < 81 * 2; ++i) {
    const Standing job{.free_seats = i % 3,
                       .unready = i / 3 % 3,
                       .working = i / 9 % 3,
                       .staying = i / 27 % 3,
                       .cause = i < 81 ? std::nullopt : std::optional(kCause),
                       .asked = ""};
    for (std::int32_t Standing::*count : {&Standing::free_seats, &Standing::unready, &Standing::working, &Standing::staying}) {
      Standing later = job;
      if (later.*count > 0) --(later.*count);
      EXPECT_GE(verdict(later).phase, verdict(job).phase) << i;
    }
  }
}

}  // namespace
}  // namespace paceline::membership
