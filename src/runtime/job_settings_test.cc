#include "runtime/job_settings.h"

#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::runtime {
namespace {

using ::testing::HasSubstr;

wire::Settings with(const std::string& name, const std::string& value) {
  wire::Settings pairs = to_settings({});
  for (auto& [known, text] : pairs) {
    if (known == name) text = value;
  }
  return pairs;
}

TEST(JobSettings, EveryFieldTravelsUnderItsOwnName) {
  const wire::Settings defaults = to_settings({});
  ASSERT_EQ(defaults.size(), setting_names().size());
  for (const std::string& name : setting_names()) {
    SCOPED_TRACE(name);
    const wire::Settings changed = with(name, "7");  // a number, a text, and nobody's default
    ASSERT_NE(changed, defaults);
    const auto settings = from_settings(changed);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    EXPECT_NE(*settings, JobSettings{});
    EXPECT_EQ(to_settings(*settings), changed);
    EXPECT_EQ(*from_settings({{name, "7"}}), *settings) << "what is missing keeps its default";
  }
}

TEST(JobSettings, EachNameIsItsFields) {
  const auto read = [](const char* name, const char* value) { return *from_settings({{name, value}}); };
  EXPECT_EQ(read("model", "vgg16").model, "vgg16");
  EXPECT_EQ(read("dataset", "d").dataset, "d");
  EXPECT_EQ(read("optimizer", "adam").optimizer, "adam");
  EXPECT_EQ(read("learning-rate", "0.1").learning_rate, "0.1");
  EXPECT_EQ(read("momentum", "0.5").momentum, 0.5);
  EXPECT_EQ(read("weight-decay", "0.5").weight_decay, 0.5);
  EXPECT_EQ(read("clip-norm", "0.5").clip_norm, 0.5);
  EXPECT_EQ(read("mini-batch", "7").mini_batch, 7);
  EXPECT_EQ(read("iterations", "7").iterations, 7);
  EXPECT_EQ(read("epochs", "7").epochs, 7);
  EXPECT_EQ(read("evaluate-every", "7").evaluate_every, 7);
  EXPECT_EQ(read("seed", "7").seed, 7);
  EXPECT_EQ(read("schedule", "p3").schedule, "p3");
  EXPECT_EQ(read("sync", "ssp").sync, "ssp");
  EXPECT_EQ(read("staleness", "7").staleness, 7);
  EXPECT_EQ(read("lookahead", "7").lookahead, 7);
  EXPECT_EQ(read("objective", "span").objective, "span");
  EXPECT_EQ(read("history", "7").history, 7);
  EXPECT_EQ(read("gradient-scale", "mean").gradient_scale, "mean");
  EXPECT_EQ(read("evaluate-late", "1").evaluate_late, 1);
  EXPECT_EQ(read("pace", "1").pace, 1);
  EXPECT_EQ(read("trace", "1").trace, 1);
  EXPECT_EQ(read("slice", "7KB").slice, "7KB");
  EXPECT_EQ(read("merge", "7").merge, "7");
  EXPECT_EQ(read("batching", "exact").batching, "exact");
  EXPECT_EQ(read("window", "1MB").window, "1MB");
  EXPECT_EQ(read("return", "broadcast").back, "broadcast");
  EXPECT_EQ(read("push", "in-batches").push, "in-batches");
  EXPECT_EQ(read("ordered-places", "none").ordered_places, "none");
  EXPECT_EQ(read("wire", "bfloat16").wire, "bfloat16");
  EXPECT_EQ(read("loss-scale", "8").loss_scale, 8);
  EXPECT_EQ(read("dgc-warm-up", "9").dgc_warm_up, 9);
  EXPECT_EQ(read("non-finite", "skip").non_finite, "skip");
  EXPECT_EQ(read("checkpoint", "a=b c").checkpoint, "a=b c");
  EXPECT_EQ(read("checkpoint-every", "7").checkpoint_every, 7);
  EXPECT_EQ(read("resume", "1").resume, 1);
  EXPECT_EQ(read("resume-from", "d").resume_from, "d");
  EXPECT_EQ(read("resume-iteration", "7").resume_iteration, 7);
  EXPECT_EQ(read("export", "f").export_file, "f");
  EXPECT_EQ(read("deadline", "0.5").deadline, 0.5);
  EXPECT_EQ(read("stall-deadline", "0.5").stall_deadline, 0.5);
  EXPECT_EQ(read("metrics", "1").metrics, 1);
  EXPECT_EQ(read("scale", "2.5").scale, 2.5);
  EXPECT_EQ(read("speed", "1,0.5").speed, "1,0.5");
  EXPECT_EQ(read("jitter", "0.5").jitter, 0.5);
  EXPECT_EQ(read("collective", "loop1").collective, "loop1");
  EXPECT_EQ(read("algorithm", "lp").algorithm, "lp");
  EXPECT_EQ(read("broadcast-every", "5").broadcast_every, 5);
  EXPECT_EQ(read("link-cost", "1,2,3").link_cost, "1,2,3");
}

TEST(JobSettings, NumbersArriveBitForBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    JobSettings settings;
    settings.momentum = std::uniform_real_distribution<double>(0, 1)(random);
    settings.weight_decay = std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 1100));
    settings.stall_deadline = static_cast<double>(random() % 1'000'000) / 1000;
    settings.seed = static_cast<std::int64_t>(random());
    ASSERT_EQ(*from_settings(to_settings(settings)), settings) << i;
  }
}

TEST(JobSettings, WhatIsNoValueIsRefusedNamingTheOption) {
  // What they may say is checked by validated().
  const std::set<std::string> texts = {
      "model",        "dataset",        "optimizer",  "learning-rate", "schedule",  "slice", "merge",  "batching",       "sync",
      "convolutions", "non-finite",     "checkpoint", "resume-from",   "export",    "speed", "window", "ordered-places", "return",
      "objective",    "gradient-scale", "collective", "algorithm",     "link-cost", "push",  "wire"};
  for (const std::string& name : setting_names()) {
    SCOPED_TRACE(name);
    if (texts.contains(name)) {
      EXPECT_TRUE(from_settings({{name, "x"}}).ok());
      continue;
    }
    for (const char* value : {"", "x", "7x", " 7", "0x7", "7,5", "99999999999999999999999999e999"}) {
      const auto settings = from_settings({{name, value}});
      ASSERT_FALSE(settings.ok()) << "'" << value << "'";
      EXPECT_EQ(settings.status().message(), fmt::format("--{} cannot be '{}'", name, value));
    }
  }
  EXPECT_EQ(from_settings({{"seed", "7.5"}}).status().message(), "--seed cannot be '7.5'");
  EXPECT_THAT(from_settings({{"momemtum", "0.5"}}).status().message(),
              HasSubstr("there is no option --momemtum (did you mean 'momentum'?)"));
}

TEST(JobSettings, ABadValueIsRefusedNamingTheOption) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> bad = {
      {"optimizer", {"", "sdg"}},
      {"learning-rate", {"", "fast", "-0.1", "nan", "step:0.1"}},
      {"momentum", {"-0.1", "1", "nan", "inf"}},
      {"weight-decay", {"-1e-9", "nan", "inf", "1e300"}},
      {"clip-norm", {"-1", "nan", "inf"}},
      {"mini-batch", {"0", "-1", "1000000001"}},
      {"iterations", {"-1", "9223372036854775807"}},
      {"epochs", {"-1", "9223372036854775807"}},
      {"evaluate-every", {"-1"}},
      {"seed", {"-1", "9223372036854775807"}},
      {"schedule", {"", "fifo"}},
      {"window", {"16KiB", "0", "131071", "auto:0ms", "automatic"}},
      {"return", {"pull"}},
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
      {"deadline", {"0", "0.1", "-1", "nan", "inf"}},
      {"stall-deadline", {"0", "0.9", "nan", "inf"}},
      {"metrics", {"-1", "2"}},
      {"trace", {"-1", "2"}},
      {"scale", {"0", "0.5", "-1", "nan", "inf", "2"}},  // 2: not with a network
      {"speed", {"0", "1,2", "1,", "x", "nan"}},
      {"jitter", {"-0.1", "1.1", "nan"}},
      {"collective", {"", "loop4"}},
      {"algorithm", {"", "rings", "lp"}},  // lp: not with servers
      {"broadcast-every", {"-1", "5"}},    // 5: not with servers
  };
  for (const auto& [name, values] : bad) {
    for (const char* value : values) {
      SCOPED_TRACE(fmt::format("--{} {}", name, value));
      const auto settings = from_settings(with(name, value));
      ASSERT_TRUE(settings.ok());
      const auto checked = validated(*settings);
      ASSERT_FALSE(checked.ok());
      EXPECT_EQ(checked.status().kind(), ErrorKind::kBadRequest);
      EXPECT_THAT(checked.status().message(), HasSubstr(fmt::format("--{}", name)));
    }
  }
}

TEST(JobSettings, OptionsThatExcludeOrNeedEachOtherAreRefused) {
  const auto refusal = [](auto change) {
    JobSettings settings;
    change(settings);
    return validated(settings).status().message();
  };
  EXPECT_THAT(refusal([](JobSettings& s) { s.iterations = s.epochs = 2; }),
              HasSubstr("--iterations 2 and --epochs 2 exclude each other"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.checkpoint_every = 5; }), HasSubstr("--checkpoint-every needs a directory"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.resume = 1; }), HasSubstr("--resume needs a directory"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.checkpoint = "c", s.sync = "asp"; }), HasSubstr("--checkpoint needs --sync bsp"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.optimizer = "nesterov", s.momentum = 0; }), HasSubstr("--momentum"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.schedule = "kvstore", s.ordered_places = "worker-egress"; }),
              HasSubstr("--ordered-places worker-egress contradicts --schedule kvstore"));
  EXPECT_EQ(refusal([](JobSettings& s) { s.schedule = "kvstore", s.ordered_places = "window"; }), "");
  EXPECT_EQ(refusal([](JobSettings& s) { s.schedule = "p3", s.back = "pull-by-layer", s.push = "at-end"; }), "");
  EXPECT_THAT(refusal([](JobSettings& s) { s.schedule = "p3", s.back = "pull-by-layer", s.push = "in-batches"; }),
              HasSubstr("--push in-batches contradicts --schedule p3 with --return pull-by-layer"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.window = "1MB", s.ordered_places = "none"; }),
              HasSubstr("--window 1MB contradicts it"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dropping:0.1", s.non_finite = "skip"; }),
              HasSubstr("--non-finite skip contradicts --wire dropping:0.1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dropping:0.1", s.checkpoint = "c"; }),
              HasSubstr("--checkpoint contradicts --wire dropping:0.1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dgc:0.1", s.optimizer = "adam"; }),
              HasSubstr("--optimizer adam contradicts --wire dgc:0.1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dgc:0.1", s.weight_decay = 0.1; }),
              HasSubstr("--weight-decay 0.1 contradicts --wire dgc:0.1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dgc:0.1", s.checkpoint = "c"; }),
              HasSubstr("--checkpoint contradicts --wire dgc:0.1"));
  EXPECT_EQ(refusal([](JobSettings& s) { s.wire = "dgc:0.1", s.optimizer = "nesterov", s.dgc_warm_up = 3, s.clip_norm = 1; }), "");
  EXPECT_EQ(validated({})->epochs, 1) << "neither given: one data epoch";
  JobSettings settings;
  settings.iterations = 5;
  EXPECT_EQ(validated(settings)->epochs, 0);
}

TEST(JobSettings, TrainingWithoutServersRefusesWhatOnlyServersDo) {
  const auto refusal = [](auto change) {
    JobSettings settings;
    settings.collective = "loop1";
    change(settings);
    return validated(settings).status().message();
  };
  EXPECT_EQ(refusal([](JobSettings&) {}), "");
  EXPECT_EQ(refusal([](JobSettings& s) { s.merge = "100KB", s.algorithm = "lp"; }), "");
  EXPECT_THAT(refusal([](JobSettings& s) { s.schedule = "p3"; }), HasSubstr("--schedule p3 contradicts --collective loop1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.slice = "5000"; }), HasSubstr("--slice 5000 contradicts --collective loop1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.batching = "exact"; }), HasSubstr("--batching exact contradicts"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.push = "as-ready"; }), HasSubstr("--push as-ready contradicts --collective loop1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.sync = "asp"; }), HasSubstr("--sync asp contradicts --collective loop1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "bfloat16"; }), HasSubstr("--wire bfloat16 contradicts --collective loop1"));
  EXPECT_EQ(refusal([](JobSettings& s) { s.checkpoint = "c"; }), "");
  EXPECT_THAT(refusal([](JobSettings& s) { s.broadcast_every = 5; }),
              HasSubstr("--broadcast-every 5 contradicts --collective loop1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.algorithm = "direct"; }), HasSubstr("cannot run the reduce of --collective loop1"));
  EXPECT_EQ(refusal([](JobSettings& s) { s.collective = "loop3", s.algorithm = "direct", s.broadcast_every = 5; }), "");
  EXPECT_THAT(refusal([](JobSettings& s) { s.link_cost = "1,2"; }), HasSubstr("--link-cost '1,2'"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.link_cost = "1,2,-3"; }), HasSubstr("--link-cost '1,2,-3'"));
}

TEST(JobSettings, TheCostOfALinkArrivesBitForBit) {
  const cost::LinkCost link{0.1, 1.0 / 3, 1e-11 / 7};
  JobSettings settings;
  settings.collective = "loop3";
  settings.link_cost = link_cost_text(link);
  const auto options = training_options(settings);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->link.alpha, link.alpha);
  EXPECT_EQ(options->link.beta, link.beta);
  EXPECT_EQ(options->link.gamma, link.gamma);
}

TEST(JobSettings, AReplayHasIterationsButNoDataAndItsScaleDividesSlices) {
  JobSettings settings;
  settings.model = "replay:a/b.json";
  settings.schedule = "p3";
  settings.scale = 20;
  const auto checked = validated(settings);
  ASSERT_TRUE(checked.ok()) << checked.status().message();
  EXPECT_EQ(replay_file(*checked), "a/b.json");
  EXPECT_EQ(replay_file({}), std::nullopt);
  EXPECT_EQ(checked->iterations, 10);
  EXPECT_EQ(checked->epochs, 0);
  EXPECT_EQ(checked->dataset, "none");
  EXPECT_EQ(*validated(*checked), *checked);
  wire::TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {25'000}, .layer = {0}});
  table.layers = {"fc"};
  EXPECT_EQ((*make_job_plan(*checked, table, 1, 1, 1))->units().units.size(), 10u) << "slices of 2500";

  const auto refusal = [&](auto change) {
    JobSettings changed = settings;
    change(changed);
    return validated(changed).status().message();
  };
  EXPECT_THAT(refusal([](JobSettings& s) { s.epochs = 2; }), HasSubstr("--epochs 2"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.dataset = "digits"; }), HasSubstr("--dataset digits"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.clip_norm = 1; }), HasSubstr("--clip-norm 1"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.sync = "ssp", s.optimizer = "adam"; }), HasSubstr("--sync ssp"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.sync = "asp", s.learning_rate = "step:0.1,every=2"; }), HasSubstr("--sync asp"));
  EXPECT_EQ(refusal([](JobSettings& s) { s.sync = "asp"; }), "");
  EXPECT_EQ(refusal([](JobSettings& s) { s.wire = "float16"; }), "");
  EXPECT_THAT(refusal([](JobSettings& s) { s.wire = "dropping:0.1"; }), HasSubstr("--wire dropping:0.1 is illegal"));
  EXPECT_THAT(refusal([](JobSettings& s) { s.sync = "asp", s.wire = "float16"; }), HasSubstr("--wire float16 with --sync asp"));
}

TEST(JobSettings, ThePlanFollowsThem) {
  wire::TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {40}, .layer = {0}});
  table.layers = {"fc"};
  JobSettings settings;
  settings.optimizer = "momentum";
  settings.momentum = 0.75;
  settings.weight_decay = 0.5;
  settings.learning_rate = "0.25";
  settings.sync = "ssp";
  settings.staleness = 4;
  settings.window = "auto:4ms";
  settings.ordered_places = "window,server-ingress";
  settings.wire = "float16";
  settings.loss_scale = 8;
  const auto plan = make_job_plan(settings, table, 3, 2, 11);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto& options = (*plan)->options();
  EXPECT_EQ(options.workers, 3);
  EXPECT_EQ(options.servers, 2);
  EXPECT_EQ(options.first, 11);
  EXPECT_EQ(options.sync.kind, sync::SyncKind::kSsp);
  EXPECT_EQ(options.sync.staleness, 4);
  EXPECT_EQ(options.wire, (paramserver::WireOptions{.kind = paramserver::WireKind::kFloat16, .loss_scale = 8}));
  EXPECT_EQ((*plan)->payload_bytes(0), static_cast<std::size_t>((*plan)->units().units[0].elements) * 2);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).window.link_time, std::chrono::milliseconds(4));
  EXPECT_EQ(scheduling::egress_rules(options.schedule).window.spread.count, 6 * 4 * options.schedule.cut.elements);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).pushes, scheduling::Order::kFirstInFirstOut);
  EXPECT_EQ(scheduling::egress_rules(options.schedule).replies, scheduling::Order::kFirstInFirstOut);
  EXPECT_EQ(scheduling::ingress_order(options.schedule), scheduling::Order::kByLayer);
  EXPECT_EQ(scheduling::to_text(options.schedule.places), "server-ingress,window");
  settings.window = "auto";
  settings.ordered_places = "server-egress";
  const auto without_window = scheduling::egress_rules((*make_job_plan(settings, table, 3, 2, 1))->options().schedule);
  EXPECT_EQ(without_window.window, scheduling::fixed_window(scheduling::kUnbounded));
  EXPECT_EQ((*plan)->optimizer_of(0).kind, tensor::OptimizerKind::kMomentum);
  EXPECT_EQ((*plan)->optimizer_of(0).momentum, 0.75);
  EXPECT_EQ((*plan)->optimizer_of(0).weight_decay, 0.5);
  EXPECT_EQ((*plan)->learning_rate_of(0, 11), 0.25);
  EXPECT_THAT(make_job_plan(settings, table, 0, 2, 1).status().message(), HasSubstr("--workers 0"));
  settings.clip_norm = 1;
  EXPECT_THAT(make_job_plan(settings, table, 3, 2, 1).status().message(), HasSubstr("--sync bsp"));
}

}  // namespace
}  // namespace paceline::runtime
