#include "job/schedule_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/option.h"

namespace paceline::job {
namespace {

using namespace scheduling;
using ::testing::HasSubstr;

// As typed; "" is not given.
Result<ScheduleOptions> schedule_from(const wire::Settings& given) {
  PACELINE_ASSIGN_OR_RETURN(const JobSpec spec, from_settings(given));
  return schedule_of(spec.schedule);
}

TEST(ScheduleChoice, TakesSizesAsParametersOrAsBytesAndRefusesContradictions) {
  const auto sizes = [](const char* name, const char* slice, const char* merge) {
    return schedule_from({{"schedule", name}, {"slice", slice}, {"merge", merge}});
  };
  EXPECT_EQ(*sizes("p3", "", ""), p3());
  EXPECT_EQ(sizes("p3", "1000", "")->cut, slices_of(1000));
  EXPECT_EQ(sizes("slicing", "200KB", "")->cut, slices_of(50'000));
  EXPECT_EQ(sizes("p3", "4KiB", "512B")->cut, (Cut{Cut::Kind::kSlices, 1024, 128}));
  EXPECT_EQ(sizes("layer-wise", "", "300")->cut, (Cut{Cut::Kind::kBalanced, 0, 300}));
  EXPECT_EQ(sizes("p3", "", "0")->cut.merge, 0);
  const auto refused = [&](const char* name, const char* slice, const char* merge, const char* part) {
    const auto options = sizes(name, slice, merge);
    ASSERT_FALSE(options.ok()) << name << " " << slice << " " << merge;
    EXPECT_EQ(options.status().kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(options.status().message(), HasSubstr(part));
  };
  for (const char* bad : {"0", "-1", "1.5", "abc", "6B", "0KB", "1e400", "99999999999999999999", "nan", " "}) {
    refused("p3", bad, "", "1 and more parameters");
    if (std::string_view(bad) != "0" && std::string_view(bad) != "0KB") refused("p3", "", bad, "0 (nothing is merged)");
  }
  const auto with_batching = [](const char* name, const char* batching) {
    return schedule_from({{"schedule", name}, {"batching", batching}});
  };
  EXPECT_EQ(with_batching("ibatch", "backward-greedy")->batching, BatchingAlgorithm::kBackwardGreedy);
  EXPECT_THAT(with_batching("ibatch", "exakt").status().message(), HasSubstr("--batching: 'exakt'"));
  EXPECT_THAT(with_batching("p3", "exact").status().message(), HasSubstr("--batching exact contradicts --schedule p3"));
  const auto with_push = [](const char* name, const char* push, const char* back = "") {
    return schedule_from({{"schedule", name}, {"return", back}, {"push", push}});
  };
  EXPECT_EQ(with_push("ibatch", "")->push, PushWhen::kReady);
  EXPECT_EQ(with_push("ibatch", "as-ready")->push, PushWhen::kReady);
  EXPECT_EQ(with_push("ibatch", "in-batches")->push, PushWhen::kInBatches);
  EXPECT_EQ(with_push("tuned", "in-batches", "pull-in-batches")->push, PushWhen::kInBatches);
  EXPECT_THAT(with_push("ibatch", "in-batch").status().message(), HasSubstr("did you mean 'in-batches'"));
  EXPECT_THAT(with_push("ibatch", "late").status().message(), HasSubstr("legal: at-end, as-ready, in-batches"));
  EXPECT_THAT(with_push("p3", "in-batches").status().message(), HasSubstr("--push in-batches contradicts --schedule p3"));
  EXPECT_THAT(with_push("tuned", "in-batches").status().message(), HasSubstr("give --return pull-in-batches"));
  EXPECT_THAT(with_push("p3", "", "pull").status().message(),
              HasSubstr("legal: broadcast, pull-at-once, pull-by-layer, pull-in-batches, notify-and-pull"));
  for (const char* whole : {"default", "layer-wise", "kvstore"}) refused(whole, "1000", "", "contradicts --schedule");
}

TEST(ScheduleChoice, PushAndReturnGoWithEverySchedule) {
  for (const std::string& name : schedule_names()) {
    for (const PushWhen push : {PushWhen::kAtEnd, PushWhen::kReady, PushWhen::kInBatches}) {
      for (const Return back :
           {Return::kBroadcast, Return::kPullAtOnce, Return::kPullByLayer, Return::kPullInBatches, Return::kNotifyAndPull}) {
        const auto options = schedule_from({{"schedule", name}, {"return", to_string(back)}, {"push", to_string(push)}});
        const bool means_something = push != PushWhen::kInBatches || back == Return::kPullInBatches;
        ASSERT_EQ(options.ok(), means_something) << name << " " << to_string(push) << " " << to_string(back);
        if (!options.ok()) continue;
        ScheduleOptions expected = *parse_schedule_name(name);
        expected.push = push;
        expected.back = back;
        EXPECT_EQ(*options, expected);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::job
