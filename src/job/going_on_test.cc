#include "job/going_on.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/option.h"
#include "job/testing.h"

namespace paceline::job {
namespace {

using job::testing::spec_of;
using ::testing::HasSubstr;
using ::testing::Not;
using Given = std::initializer_list<std::pair<const char*, std::string>>;

Said names(const std::set<std::string, std::less<>>& said) {
  return [said](std::string_view name) { return said.contains(name); };
}

// What a person says now, as names and texts, of a job that was `saved`.
JobSpec going_on(Given said, const JobSpec& saved) {
  std::set<std::string, std::less<>> given;
  for (const auto& [name, text] : said) given.insert(name);
  return with_saved(spec_of(said), saved, names(given));
}

TEST(GoingOn, EveryOptionThatAPersonGivesIsTakenButThoseOfOneRun) {
  // One value for each that is not the usual one; together they need not make a job.
  const Given all = {{"model", "mlp"},
                     {"dataset", "none"},
                     {"mini-batch", "7"},
                     {"iterations", "9"},
                     {"epochs", "3"},
                     {"evaluate-every", "2"},
                     {"evaluate-late", "1"},
                     {"seed", "5"},
                     {"optimizer", "adam"},
                     {"learning-rate", "0.3"},
                     {"momentum", "0.5"},
                     {"weight-decay", "0.1"},
                     {"adam-beta1", "0.8"},
                     {"adam-beta2", "0.9"},
                     {"adam-epsilon", "1e-06"},
                     {"clip-norm", "2"},
                     {"schedule", "p3"},
                     {"slice", "1000"},
                     {"merge", "20"},
                     {"non-finite", "apply"},
                     {"wire", "bfloat16"},
                     {"loss-scale", "4"},
                     {"sync", "ssp"},
                     {"staleness", "4"},
                     {"collective", "loop1"},
                     {"algorithm", "lp"},
                     {"speed", "1,0.5"},
                     {"jitter", "0.1"},
                     {"convolutions", "conv2=fft"},
                     {"deadline", "4"},
                     {"stall-deadline", "60"},
                     {"checkpoint-every", "6"},
                     {"parameter-groups", "*.bias:decay=0"}};
  const JobSpec saved = spec_of(all), taken = with_saved({}, saved, names({}));
  for (const auto& [name, text] : all) {
    const Option& option = *find_option(name);
    EXPECT_NE(option.text(saved), option.text({})) << name << " would be the same if it were not taken";
    EXPECT_EQ(option.text(taken), option.text(saved)) << name;
  }
  const JobSpec run = spec_of({{"checkpoint", "c"},
                               {"checkpoint-key", "k"},
                               {"resume", "1"},
                               {"export", "e"},
                               {"resume-from", "f"},
                               {"resume-iteration", "8"},
                               {"resume-manifest", "0123abcd"},
                               {"link-cost", "1,2,3"},
                               {"metrics", "1"},
                               {"pace", "1"},
                               {"trace", "1"}});
  EXPECT_EQ(with_saved({}, run, names({})), JobSpec());
}

TEST(GoingOn, WhatIsSaidStaysAlsoWhereItIsTheUsualValue) {
  const JobSpec saved = spec_of({{"optimizer", "momentum"}, {"mini-batch", "16"}, {"seed", "4"}});
  const JobSpec job = going_on({{"optimizer", "sgd"}, {"mini-batch", "8"}}, saved);
  EXPECT_EQ(to_settings(job), to_settings(spec_of({{"optimizer", "sgd"}, {"mini-batch", "8"}, {"seed", "4"}})));
}

TEST(GoingOn, WhatRefinedAnEarlierChoiceGoesWithIt) {
  EXPECT_EQ(going_on({{"epochs", "2"}}, spec_of({{"iterations", "90"}})).task.iterations, 0);
  EXPECT_EQ(going_on({{"iterations", "90"}}, spec_of({{"epochs", "2"}})).task.epochs, 0);
  const JobSpec sliced = spec_of({{"schedule", "p3"}, {"slice", "1000"}, {"window", "1MB"}});
  EXPECT_EQ(going_on({{"schedule", "p3"}}, sliced), sliced) << "said again, it is the same choice";
  EXPECT_EQ(going_on({{"schedule", "layer-wise"}}, sliced), spec_of({{"schedule", "layer-wise"}, {"window", "1MB"}}));
  EXPECT_EQ(going_on({{"collective", "loop1"}}, sliced), spec_of({{"collective", "loop1"}, {"window", "1MB"}}));
}

TEST(GoingOn, WhoWantsServersLeavesTheCollectiveOperations) {
  const JobSpec saved = spec_of({{"collective", "loop3"}, {"algorithm", "ring"}, {"merge", "500"}, {"seed", "2"}});
  EXPECT_EQ(going_on({}, saved), saved);
  EXPECT_EQ(with_saved({}, saved, names({"servers"})), spec_of({{"seed", "2"}}));
  EXPECT_EQ(going_on({{"schedule", "p3"}}, saved), spec_of({{"schedule", "p3"}, {"seed", "2"}}));
  EXPECT_EQ(going_on({{"collective", "none"}}, saved), spec_of({{"seed", "2"}}));
}

TEST(GoingOn, ItTellsWhatIsTakenAndNothingElse) {
  const JobSpec saved = spec_of({{"optimizer", "momentum"},
                                 {"mini-batch", "16"},
                                 {"seed", "4"},
                                 {"deadline", "3"},
                                 {"evaluate-every", "5"},
                                 {"evaluate-late", "1"},
                                 {"parameter-groups", "*.bias:decay=0"}});
  const Said said = names({"seed"});
  const std::string text = taken_text(with_saved(spec_of({{"seed", "4"}}), saved, said), saved, said);
  EXPECT_EQ(text,
            " --mini-batch 16 --evaluate-every 5 --evaluate-late --optimizer momentum --parameter-groups \"*.bias:decay=0\" "
            "--deadline 3s");
  JobSpec overruled = with_saved({}, saved, names({}));
  overruled.task.mini_batch = 8;
  EXPECT_THAT(taken_text(overruled, saved, names({})), Not(HasSubstr("mini-batch")));
}

}  // namespace
}  // namespace paceline::job
