#include "bench/prediction/random_jobs.h"

#include <set>

#include <gtest/gtest.h>

#include "job/testing.h"

namespace paceline::bench {
namespace {

// As `paceline train` reads it.
job::JobSpec spec_of_words(const std::vector<std::string>& words) {
  job::JobSpec spec;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) job::testing::give(spec, words[i].substr(2), words[i + 1]);
  const auto valid = job::validated(spec);
  EXPECT_TRUE(valid.ok()) << valid.status().message();
  return spec;
}

TEST(RandomJobs, WhatIsPredictedIsWhatIsRun) {
  std::set<std::string> different;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const RandomJob job = random_job(seed, 10);
    EXPECT_TRUE(different.insert(job.text()).second);
    EXPECT_EQ(job.text(), random_job(seed, 10).text());
    const job::JobSpec spec = spec_of_words(words_of(job, "table.json"));
    const simulation::Job told = job_of(job);
    ASSERT_TRUE(job::schedule_of(spec).ok());
    EXPECT_EQ(*job::schedule_of(spec), job.schedule);
    EXPECT_EQ(spec.sync, told.sync);
    EXPECT_EQ(job::server_update(spec).holds_updates(), told.holds_updates);
    const auto speed = job::compute_speed(spec, job.hosts());
    ASSERT_TRUE(speed.ok()) << speed.status().message();
    for (Iteration iteration = 1; iteration <= 3; ++iteration)
      EXPECT_EQ(job::slowness(*speed, Rank{1}, iteration), job::slowness(told.speed, Rank{1}, iteration));
    EXPECT_EQ(spec.task.iterations, job.iterations);
  }
}

TEST(RandomJobs, EveryModelHasItsTurn) {
  std::set<std::pair<sync::SyncKind, bool>> kinds;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) kinds.insert({random_job(seed, 1).sync.kind, random_job(seed, 1).holds_updates});
  EXPECT_EQ(kinds.size(), 4U);
}

}  // namespace
}  // namespace paceline::bench
