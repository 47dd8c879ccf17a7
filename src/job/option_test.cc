#include "job/option.h"

#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;

using testing::spec_of;
using ::testing::StartsWith;

// A legal value of each option that is nobody's default, in its one text.
const std::vector<std::pair<const char*, const char*>> kOthers = {{"model", "vgg16"},
                                                                  {"dataset", "d"},
                                                                  {"optimizer", "momentum"},
                                                                  {"learning-rate", "step:0.1,every=100,factor=0.5"},
                                                                  {"momentum", "0.5"},
                                                                  {"weight-decay", "0.5"},
                                                                  {"adam-beta1", "0.5"},
                                                                  {"adam-beta2", "0.5"},
                                                                  {"adam-epsilon", "0.5"},
                                                                  {"parameter-groups", "*.bias:decay=0"},
                                                                  {"clip-norm", "0.5"},
                                                                  {"mini-batch", "7"},
                                                                  {"iterations", "7"},
                                                                  {"epochs", "7"},
                                                                  {"evaluate-every", "7"},
                                                                  {"evaluate-late", "1"},
                                                                  {"seed", "7"},
                                                                  {"schedule", "p3"},
                                                                  {"slice", "7000"},
                                                                  {"merge", "7"},
                                                                  {"batching", "exact"},
                                                                  {"window", "1MB"},
                                                                  {"return", "broadcast"},
                                                                  {"push", "in-batches"},
                                                                  {"ordered-places", "none"},
                                                                  {"wire", "dgc:0.5"},
                                                                  {"loss-scale", "8"},
                                                                  {"dgc-warm-up", "9"},
                                                                  {"sync", "ssp"},
                                                                  {"collective", "loop1"},
                                                                  {"algorithm", "lp"},
                                                                  {"block", "64000B"},
                                                                  {"broadcast-every", "5"},
                                                                  {"link-cost", "1,2,3"},
                                                                  {"convolutions", "conv2=fft"},
                                                                  {"staleness", "7"},
                                                                  {"lookahead", "7"},
                                                                  {"objective", "span"},
                                                                  {"history", "7"},
                                                                  {"gradient-scale", "mean"},
                                                                  {"non-finite", "skip"},
                                                                  {"verdict", "1"},
                                                                  {"verdict-first", "1"},
                                                                  {"told-rates", "1"},
                                                                  {"checkpoint", "a=b c"},
                                                                  {"checkpoint-key", "/tmp/key"},
                                                                  {"checkpoint-every", "7"},
                                                                  {"resume", "1"},
                                                                  {"resume-from", "d"},
                                                                  {"resume-iteration", "7"},
                                                                  {"resume-manifest", "0123abcd"},
                                                                  {"export", "f"},
                                                                  {"deadline", "0.5"},
                                                                  {"stall-deadline", "7"},
                                                                  {"metrics", "1"},
                                                                  {"pace", "1"},
                                                                  {"trace", "1"},
                                                                  {"scale", "2.5"},
                                                                  {"message-start-up", "0.25"},
                                                                  {"speed", "1,0.5"},
                                                                  {"jitter", "0.5"}};

TEST(PlanOptions, EachTravelsUnderItsOwnName) {
  const wire::Settings defaults = to_settings({});
  ASSERT_EQ(defaults.size(), options().size());
  std::set<std::string> tried;
  for (const auto& [name, text] : kOthers) {
    SCOPED_TRACE(name);
    tried.insert(name);
    const auto spec = from_settings({{name, text}});
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    EXPECT_NE(*spec, JobSpec{});
    wire::Settings changed = defaults;
    for (auto& [known, value] : changed) {
      if (known == name) value = text;
    }
    EXPECT_EQ(to_settings(*spec), changed) << "no other option changes";
    EXPECT_EQ(from_settings(changed).value(), *spec);
  }
  EXPECT_EQ(tried.size(), options().size());
}

TEST(PlanOptions, HaveOneTextForOneValueHoweverItWasTyped) {
  const auto text = [](const char* name, const char* typed) { return find_option(name)->text(spec_of({{name, typed}})); };
  EXPECT_EQ(text("slice", "200KB"), "50000");
  EXPECT_EQ(text("learning-rate", "constant:0.10"), "0.1");
  EXPECT_EQ(text("window", "1000000"), "1MB");
  EXPECT_EQ(text("block", "64KB"), text("block", "64000"));
  EXPECT_EQ(text("speed", "1.0,0.50"), "1,0.5");
  EXPECT_EQ(text("ordered-places", "window,worker-egress"), "worker-egress,window");
  EXPECT_EQ(text("momentum", "0.50"), "0.5");
}

TEST(PlanOptions, NumbersArriveBitForBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    JobSpec spec;
    spec.update.optimizer.momentum = std::uniform_real_distribution<double>(0, 1)(random);
    spec.update.optimizer.weight_decay = std::ldexp(static_cast<double>(random() >> 20), -static_cast<int>(random() % 1100));
    spec.limits.stall_deadline = 1 + static_cast<double>(random() % 1'000'000) / 1000;
    spec.task.seed = static_cast<std::int64_t>(random() % 9'000'000'000'000'000);
    ASSERT_EQ(from_settings(to_settings(spec)).value(), spec) << i;
  }
}

TEST(PlanOptions, WhatIsNoValueIsRefusedNamingTheOption) {
  for (const Option& option : options()) {
    SCOPED_TRACE(option.name);
    if (option.type == OptionType::kText) continue;
    for (const char* value : {"", "x", "7x", " 7", "0x7", "7,5", "99999999999999999999999999e999"}) {
      if (option.absent == value) continue;
      JobSpec spec;
      const Status status = option.set(spec, value);
      ASSERT_FALSE(status.ok()) << "'" << value << "'";
      EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
      EXPECT_EQ(status.code(), "illegal");
      EXPECT_EQ(status.subject(), "--" + option.name);
      EXPECT_THAT(status.message(), StartsWith("--" + option.name));
      if (option.type != OptionType::kChoice) {
        EXPECT_THAT(status.message(), StartsWith(fmt::format("--{} cannot be '{}'; legal: ", option.name, value)));
      }
      EXPECT_EQ(spec, JobSpec{});
    }
  }
  EXPECT_EQ(from_settings({{"seed", "7.5"}}).status().message(),
            "--seed cannot be '7.5'; legal: a whole number, 0 to 9000000000000000");
  const Status unknown = from_settings({{"momemtum", "0.5"}}).status();
  EXPECT_THAT(unknown.message(), HasSubstr("there is no option --momemtum (did you mean 'momentum'?)"));
  EXPECT_EQ(unknown.code(), "unknown");
}

TEST(PlanOptions, ChoicesAreThoseThatTheirReaderTakes) {
  for (const Option& option : options()) {
    for (const std::string& choice : option.choices) {
      JobSpec spec;
      const Status status = option.set(spec, choice);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(option.text(spec), choice);
    }
  }
}

TEST(PlanOptions, APersonGivesTimesWithTheirUnitAndNeverWhatStandsForNothing) {
  const auto typed = [](const char* name, const char* text) {
    JobSpec spec;
    const Status status = set_typed(spec, *find_option(name), text);
    EXPECT_EQ(status.ok(), spec != JobSpec{});
    return status;
  };
  EXPECT_TRUE(typed("deadline", "1500ms").ok());
  EXPECT_EQ(typed("deadline", "5").subject(), "--deadline");
  EXPECT_THAT(typed("deadline", "1ms").message(), HasSubstr("--deadline is 0.001; legal: 200ms to 86400s, a day"));
  EXPECT_EQ(typed_text({}, *find_option("stall-deadline")), "600s");
  for (const char* none : {"0", "00"}) EXPECT_THAT(typed("iterations", none).message(), HasSubstr("--iterations is"));
  EXPECT_TRUE(from_settings({{"iterations", "0"}}).ok());
  for (const char* name : {"slice", "merge", "checkpoint", "speed"})
    EXPECT_THAT(typed(name, "").message(), HasSubstr(fmt::format("--{} cannot be ''; legal: ", name)));
  EXPECT_TRUE(typed("algorithm", "lp").ok());
}

TEST(PlanOptions, AnEarlierReleasesTextsAreReadAsFarAsTheyDecideBits) {
  const auto saved = from_saved({{"momentum", "0.5"}, {"no-longer-there", "1"}, {"iterations", "0"}, {"objective", "height"}});
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_EQ(saved->update.optimizer.momentum, 0.5);
  EXPECT_EQ(from_saved({{"momentum", "much"}}).status().subject(), "--momentum");
  EXPECT_EQ(resume_difference(*saved, spec_of({{"momentum", "0.5"}, {"schedule", "p3"}, {"epochs", "9"}})), nullptr);
  EXPECT_EQ(resume_difference(*saved, {})->name, "momentum");
  EXPECT_EQ(resume_difference({}, spec_of({{"convolutions", "conv2=fft"}}))->name, "convolutions");
}

}  // namespace
}  // namespace paceline::job
