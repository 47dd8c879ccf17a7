// What a worker tells of its steps and of what it has alike with others.
#include <gmock/gmock.h>

#include "library/one_worker_testing.h"

namespace paceline::library::testing {
namespace {

using ::testing::HasSubstr;

TEST(TellAlike, IsOfTheIterationThatHasEndedLast) {
  OneWorker one;
  one.join();
  Error error;
  const char *name = "lr", *value = "0.1";
  EXPECT_REFUSED(paceline_tell_left_out(one.worker, 1, error), "order");
  EXPECT_THAT(said(error), HasSubstr("the iteration that has ended last, which is 0, and not of 1"));
  one.train(1, {1, 2, 3});
  EXPECT_REFUSED(paceline_tell_alike(one.worker, 2, &name, &value, 1, error), "order");
  EXPECT_DONE(paceline_tell_left_out(one.worker, 1, error));
  EXPECT_DONE(paceline_tell_alike(one.worker, 1, &name, &value, 1, error));
  EXPECT_DONE(paceline_finish(one.worker, INFINITY, error)) << "a worker alone parts from nobody";
  EXPECT_REFUSED(paceline_tell_alike(one.worker, 1, &name, &value, 1, error), "order");
}

TEST(TellAlike, TextsThatAreNotThereAreRefused) {
  OneWorker one;
  one.join();
  Error error;
  const char *name = "lr", *none = nullptr;
  EXPECT_DONE(paceline_tell_alike(one.worker, 0, nullptr, nullptr, 0, error));
  EXPECT_REFUSED(paceline_tell_alike(one.worker, 0, nullptr, &name, 1, error), "null");
  EXPECT_REFUSED(paceline_tell_alike(one.worker, 0, &name, &none, 1, error), "null");
  EXPECT_REFUSED(paceline_tell_alike(one.worker, 0, &name, &name, (std::size_t{1} << 20) + 1, error), "illegal");
}

}  // namespace
}  // namespace paceline::library::testing
