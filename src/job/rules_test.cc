// What options mean together (rules.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::spec_of;

// Why there can be no such job; "": there can.
std::string refusal_of(wire::Settings settings, const wire::Settings& given) {
  settings.insert(settings.end(), given.begin(), given.end());
  const auto spec = from_settings(settings);
  return spec.ok() ? validated(*spec).status().message() : spec.status().message();
}

TEST(JobSpec, WithoutALearningRateEachOptimizerHasItsUsualOne) {
  for (const auto& [optimizer, rate] :
       {std::pair{"sgd", 0.05}, {"momentum", 0.05}, {"adagrad", 0.05}, {"adam", 0.001}, {"adamw", 0.001}}) {
    const JobSpec spec = spec_of({{"optimizer", optimizer}});
    EXPECT_EQ(server_update(spec).learning_rate, tensor::Schedule{.base = rate}) << optimizer;
    // What another process is told has the same one.
    EXPECT_EQ(server_update(*from_settings(to_settings(spec))).learning_rate, tensor::Schedule{.base = rate}) << optimizer;
  }
  EXPECT_EQ(server_update(spec_of({{"learning-rate", "0.05"}, {"optimizer", "adam"}})).learning_rate.base, 0.05);
}

TEST(JobSpec, AnUsualLearningRateIsNoneThatContradictsToldOnes) {
  const JobSpec spec = spec_of({{"optimizer", "adam"}, {"told-rates", "1"}});
  EXPECT_TRUE(validated(spec).ok());
  EXPECT_TRUE(validated(*from_settings(to_settings(spec))).ok()) << "of another process";
  EXPECT_THAT(refusal_of({{"optimizer", "adam"}, {"told-rates", "1"}}, {{"learning-rate", "0.1"}}), HasSubstr("--told-rates"));
}

TEST(JobSpec, ABadValueIsRefusedNamingTheOption) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> bad = {
      {"optimizer", {"", "sdg"}},
      {"learning-rate", {"", "fast", "-0.1", "nan", "step:0.1"}},
      {"momentum", {"-0.1", "1", "nan", "inf"}},
      {"weight-decay", {"-1e-9", "nan", "inf", "1e300"}},
      {"adam-beta1", {"-0.1", "1", "nan", "0.5"}},  // 0.5: not with sgd
      {"adam-beta2", {"-0.1", "1", "nan", "0.5"}},
      {"adam-epsilon", {"0", "-1e-8", "1e-46", "inf", "0.5"}},
      {"parameter-groups", {"x", "x:", "x:rate=-1"}},
      {"clip-norm", {"-1", "nan", "inf"}},
      {"mini-batch", {"0", "-1", "1000000001"}},
      {"iterations", {"-1", "9223372036854775807"}},
      {"epochs", {"-1", "9223372036854775807"}},
      {"evaluate-every", {"-1"}},
      {"seed", {"-1", "9223372036854775807"}},
      {"schedule", {"", "fifo"}},
      {"window", {"16KiB", "0", "131071", "auto:0ms", "automatic"}},
      {"return", {"pull", "notify"}},
      {"ordered-places", {"some", "window,", "worker-egress,client-egress"}},
      {"wire", {"", "float64", "bfloat", "dropping", "dropping:0", "dropping:2", "dgc", "dgc:nan"}},
      {"loss-scale", {"0", "3", "nan", "2"}},
      {"dgc-warm-up", {"-1", "5"}},
      {"sync", {"", "bps"}},
      {"staleness", {"-1", "1000001"}},
      {"lookahead", {"0", "-1", "1000001"}},
      {"non-finite", {"", "ignore"}},
      {"checkpoint-every", {"-1"}},
      {"resume", {"-1", "2"}},
      {"resume-iteration", {"-1"}},
      {"deadline", {"0", "0.1", "-1", "nan", "inf", "86401"}},
      {"export", {"\xff"}},
      {"stall-deadline", {"0", "0.9", "nan", "inf"}},
      {"metrics", {"-1", "2"}},
      {"trace", {"-1", "2"}},
      {"scale", {"0", "0.5", "-1", "nan", "inf", "2"}},  // 2: not with a network
      {"speed", {"0", "1,2", "1,", "x", "nan"}},
      {"jitter", {"-0.1", "1.1", "nan"}},
      {"collective", {"", "loop4"}},
      {"algorithm", {"", "rings", "lp"}},         // lp: not with servers
      {"block", {"0", "6", "-4", "64", "64kb"}},  // 64: not with servers
      {"broadcast-every", {"-1", "5"}},           // 5: not with servers
  };
  for (const auto& [name, values] : bad) {
    for (const char* value : values) {
      SCOPED_TRACE(fmt::format("--{} {}", name, value));
      const auto spec = from_settings({{name, value}});
      const auto checked = spec.ok() ? validated(*spec) : spec;
      ASSERT_FALSE(checked.ok());
      EXPECT_EQ(checked.status().kind(), ErrorKind::kBadRequest);
      EXPECT_THAT(checked.status().message(), HasSubstr(fmt::format("--{}", name)));
    }
  }
}

TEST(JobSpec, OptionsThatExcludeOrNeedEachOtherAreRefused) {
  const auto refusal = [](const wire::Settings& given) { return refusal_of({}, given); };
  EXPECT_THAT(refusal({{"iterations", "2"}, {"epochs", "2"}}), HasSubstr("--iterations 2 and --epochs 2 exclude each other"));
  EXPECT_THAT(refusal({{"checkpoint-every", "5"}}), HasSubstr("--checkpoint-every needs a directory"));
  EXPECT_THAT(refusal({{"resume", "1"}}), HasSubstr("--resume needs a directory"));
  EXPECT_THAT(refusal({{"checkpoint", "c"}, {"sync", "asp"}}), HasSubstr("--checkpoint needs --sync bsp"));
  EXPECT_THAT(refusal({{"optimizer", "nesterov"}, {"momentum", "0"}}), HasSubstr("--momentum"));
  EXPECT_EQ(refusal({{"optimizer", "adamw"}, {"adam-beta1", "0.5"}}), "");
  EXPECT_EQ(refusal({{"optimizer", "momentum"}, {"adam-beta1", "0.5"}}),
            "--adam-beta1 0.5 is for --optimizer adam or adamw, not momentum");
  EXPECT_EQ(refusal({{"momentum", "0.5"}}), "--momentum 0.5 is for --optimizer momentum or nesterov, not sgd");
  EXPECT_EQ(refusal({{"staleness", "2"}}), "--staleness 2 is for --sync ssp, not bsp");
  EXPECT_EQ(refusal({{"sync", "ssp"}, {"history", "1"}}), "--history 1 is for --sync elastic-bsp, not ssp");
  EXPECT_EQ(refusal({{"evaluate-late", "1"}}), "--evaluate-late is for --evaluate-every ITERATIONS");
  EXPECT_EQ(refusal({{"momentum", "0.9"}, {"staleness", "3"}}), "") << "as if nobody had given them";
  EXPECT_THAT(refusal({{"wire", "dgc:0.1"}, {"parameter-groups", "a:decay=1"}}),
              HasSubstr("--parameter-groups a:decay=1 contradicts"));
  EXPECT_THAT(refusal({{"schedule", "kvstore"}, {"ordered-places", "worker-egress"}}),
              HasSubstr("--ordered-places worker-egress contradicts --schedule kvstore"));
  EXPECT_EQ(refusal({{"schedule", "kvstore"}, {"ordered-places", "window"}}), "");
  EXPECT_EQ(refusal({{"schedule", "p3"}, {"return", "pull-by-layer"}, {"push", "at-end"}}), "");
  EXPECT_THAT(refusal({{"schedule", "p3"}, {"return", "pull-by-layer"}, {"push", "in-batches"}}),
              HasSubstr("--push in-batches contradicts --schedule p3 with --return pull-by-layer"));
  EXPECT_THAT(refusal({{"window", "1MB"}, {"ordered-places", "none"}}), HasSubstr("--window 1MB contradicts it"));
  EXPECT_THAT(refusal({{"wire", "dropping:0.1"}, {"non-finite", "skip"}}),
              HasSubstr("--non-finite skip contradicts --wire dropping:0.1"));
  EXPECT_THAT(refusal({{"wire", "dropping:0.1"}, {"checkpoint", "c"}}), HasSubstr("--checkpoint contradicts --wire dropping:0.1"));
  EXPECT_THAT(refusal({{"wire", "dgc:0.1"}, {"optimizer", "adam"}}), HasSubstr("--optimizer adam contradicts --wire dgc:0.1"));
  EXPECT_THAT(refusal({{"wire", "dgc:0.1"}, {"weight-decay", "0.1"}}), HasSubstr("--weight-decay 0.1 contradicts --wire dgc:0.1"));
  EXPECT_THAT(refusal({{"wire", "dgc:0.1"}, {"checkpoint", "c"}}), HasSubstr("--checkpoint contradicts --wire dgc:0.1"));
  EXPECT_EQ(refusal({{"wire", "dgc:0.1"}, {"optimizer", "nesterov"}, {"dgc-warm-up", "3"}, {"clip-norm", "1"}}), "");
  EXPECT_EQ(validated(JobSpec{})->task.epochs, 1) << "neither given: one data epoch";
  EXPECT_EQ(validated(spec_of({{"iterations", "5"}}))->task.epochs, 0);
}

TEST(JobSpec, MeansRefuseWhatOnlyWhoeverMakesTheStepsCanDo) {
  const auto refusal = [](const wire::Settings& given) { return refusal_of({{"optimizer", "mean"}}, given); };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"verdict", "1"}, {"non-finite", "apply"}, {"schedule", "p3"}}), "");
  EXPECT_EQ(refusal({{"verdict", "1"}, {"verdict-first", "1"}}), "");
  EXPECT_EQ(refusal({{"verdict-first", "1"}}), "--verdict-first is for --verdict");
  for (const char* wire : {"bfloat16", "float16"}) EXPECT_EQ(refusal({{"wire", wire}}), "");
  for (const char* loop : {"loop1", "loop2", "loop3", "loop3-overlap"}) EXPECT_EQ(refusal({{"collective", loop}}), "");
  EXPECT_EQ(refusal({{"collective", "loop3"}, {"verdict", "1"}}), "");
  EXPECT_THAT(refusal({{"collective", "loop1"}, {"verdict", "1"}}), HasSubstr("legal with --collective: loop3, loop3-overlap"));
  for (const auto& [name, value] :
       wire::Settings{{"learning-rate", "0.1"}, {"weight-decay", "0.1"}, {"parameter-groups", "a:decay=1"}, {"clip-norm", "1"}}) {
    EXPECT_EQ(refusal({{name, value}}),
              fmt::format("--{} {} is for --optimizer sgd, momentum, nesterov, adam, adamw or adagrad, not mean", name, value));
  }
  EXPECT_EQ(refusal({{"momentum", "0.5"}}), "--momentum 0.5 is for --optimizer momentum or nesterov, not mean");
  for (const auto& [name, value] : wire::Settings{{"sync", "asp"}, {"wire", "dropping:0.01"}, {"checkpoint", "c"}, {"export", "e"}})
    EXPECT_THAT(refusal({{name, value}}), HasSubstr(fmt::format("--{} {} contradicts --optimizer mean", name, value)));
  EXPECT_THAT(refusal({{"adam-beta1", "0.5"}}), HasSubstr("--adam-beta1 0.5 is for --optimizer adam or adamw, not mean"));
  EXPECT_THAT(refusal({{"non-finite", "skip"}}), HasSubstr("--non-finite skip contradicts --optimizer mean"));
  EXPECT_EQ(refusal_of({}, {{"verdict", "1"}}), "--verdict is for --optimizer mean, not sgd");
}

TEST(JobSpec, WhatWorkersTellWithEveryIterationTheJobDoesNotSayToo) {
  const auto refusal = [](const wire::Settings& given) { return refusal_of({{"told-rates", "1"}}, given); };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"optimizer", "adamw"}, {"sync", "asp"}}), "");
  EXPECT_EQ(refusal({{"clip-norm", "1"}}), "");
  for (const auto& [name, value] : wire::Settings{
           {"learning-rate", "0.1"}, {"weight-decay", "0.1"}, {"parameter-groups", "a:decay=1"}, {"collective", "loop3"}})
    EXPECT_THAT(refusal({{name, value}}), HasSubstr(fmt::format("--{} {} contradicts --told-rates", name, value)));
  EXPECT_THAT(refusal({{"wire", "dgc:0.1"}}), HasSubstr("--wire dgc:0.1 contradicts --told-rates"));
  EXPECT_EQ(refusal({{"optimizer", "mean"}}), "--told-rates is for optimizers that make steps");
}

TEST(JobSpec, TrainingWithoutServersRefusesWhatOnlyServersDo) {
  const auto refusal = [](const wire::Settings& given) { return refusal_of({{"collective", "loop1"}}, given); };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"merge", "100KB"}, {"algorithm", "lp"}}), "");
  EXPECT_THAT(refusal({{"schedule", "p3"}}), HasSubstr("--schedule p3 contradicts --collective loop1"));
  EXPECT_THAT(refusal({{"slice", "5000"}}), HasSubstr("--slice 5000 contradicts --collective loop1"));
  EXPECT_THAT(refusal({{"batching", "exact"}}), HasSubstr("--batching exact contradicts"));
  EXPECT_THAT(refusal({{"push", "as-ready"}}), HasSubstr("--push as-ready contradicts --collective loop1"));
  EXPECT_THAT(refusal({{"sync", "asp"}}), HasSubstr("--sync asp contradicts --collective loop1"));
  EXPECT_THAT(refusal({{"wire", "bfloat16"}}), HasSubstr("--wire bfloat16 contradicts --collective loop1"));
  for (const char* places : {"server-egress", "worker-egress,server-ingress"})
    EXPECT_THAT(refusal({{"ordered-places", places}}), HasSubstr(" contradicts --collective loop1, which has no servers; legal"));
  for (const char* places : {"all", "none", "worker-egress", "window", "server-egress,server-ingress,worker-egress,window"})
    EXPECT_EQ(refusal({{"ordered-places", places}}), "");
  EXPECT_EQ(refusal({{"checkpoint", "c"}}), "");
  EXPECT_THAT(refusal({{"broadcast-every", "5"}}), HasSubstr("--broadcast-every 5 contradicts --collective loop1"));
  EXPECT_THAT(refusal({{"algorithm", "direct"}}), HasSubstr("cannot run the reduce of --collective loop1"));
  EXPECT_EQ(refusal({{"collective", "loop3"}, {"algorithm", "direct"}, {"broadcast-every", "5"}}), "");
  EXPECT_EQ(refusal({{"block", "64KB"}}), "");
  EXPECT_EQ(refusal({{"block", "64KB"}, {"algorithm", "lp"}}), "");
  EXPECT_EQ(refusal({{"block", "64KB"}, {"algorithm", "mst"}}),
            "--block 64000B is for the blocks of --algorithm lp, and of best where it takes lp, not mst");
  EXPECT_THAT(refusal({{"link-cost", "1,2"}}), HasSubstr("--link-cost '1,2'"));
  EXPECT_THAT(refusal({{"link-cost", "1,2,-3"}}), HasSubstr("--link-cost '1,2,-3'"));
}

TEST(JobSpec, BlocksAreDividedAsTheMessagesOfAReplayAre) {
  const auto block = [](const char* scale) {
    return training_of(spec_of({{"collective", "loop1"}, {"block", "64KB"}, {"model", "replay:a"}, {"scale", scale}}))->block;
  };
  EXPECT_EQ(block("1"), Bytes{64'000});
  EXPECT_EQ(block("10"), Bytes{6'400});
  EXPECT_EQ(block("1000000"), Bytes{4}) << "a parameter at least";
  EXPECT_EQ(training_of(spec_of({{"collective", "loop1"}}))->block, std::nullopt);
}

TEST(JobSpec, TheCostOfALinkArrivesBitForBit) {
  const cost::LinkCost link{0.1, 1.0 / 3, 1e-11 / 7};
  JobSpec spec = spec_of({{"collective", "loop3"}});
  spec.loop.link = link;
  const auto options = training_of(from_settings(to_settings(spec)).value());
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->link.alpha, link.alpha);
  EXPECT_EQ(options->link.beta, link.beta);
  EXPECT_EQ(options->link.gamma, link.gamma);
}

TEST(JobSpec, AReplayHasIterationsButNoData) {
  const auto checked = validated(spec_of({{"model", "replay:a/b.json"}, {"schedule", "p3"}, {"scale", "20"}}));
  ASSERT_TRUE(checked.ok()) << checked.status().message();
  EXPECT_EQ(replay_file(*checked), "a/b.json");
  EXPECT_EQ(replay_file({}), std::nullopt);
  EXPECT_EQ(checked->task.iterations, 10);
  EXPECT_EQ(checked->task.epochs, 0);
  EXPECT_EQ(checked->task.dataset, "none");
  EXPECT_EQ(*validated(*checked), *checked);
  const auto refusal = [](const wire::Settings& given) {
    return refusal_of({{"model", "replay:a/b.json"}, {"schedule", "p3"}, {"scale", "20"}}, given);
  };
  EXPECT_THAT(refusal({{"epochs", "2"}}), HasSubstr("--epochs 2"));
  EXPECT_THAT(refusal({{"dataset", "digits"}}), HasSubstr("--dataset digits"));
  EXPECT_THAT(refusal({{"clip-norm", "1"}}), HasSubstr("--clip-norm 1"));
  EXPECT_THAT(refusal({{"parameter-groups", "a:rate=2"}}), HasSubstr("--parameter-groups a:rate=2 is illegal"));
  EXPECT_THAT(refusal({{"sync", "ssp"}, {"optimizer", "adam"}}), HasSubstr("--sync ssp"));
  EXPECT_THAT(refusal({{"sync", "asp"}, {"learning-rate", "step:0.1,every=2"}}), HasSubstr("--sync asp"));
  EXPECT_EQ(refusal({{"sync", "asp"}}), "");
  EXPECT_EQ(refusal({{"wire", "float16"}}), "");
  EXPECT_THAT(refusal({{"wire", "dropping:0.1"}}), HasSubstr("--wire dropping:0.1 is illegal"));
  EXPECT_THAT(refusal({{"sync", "asp"}, {"wire", "float16"}}), HasSubstr("--wire float16 with --sync asp"));
}

}  // namespace
}  // namespace paceline::job
