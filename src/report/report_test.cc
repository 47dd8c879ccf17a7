#include "report/report.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace paceline::report {
namespace {

using job::testing::give;
using ::testing::HasSubstr;

WorkerReport worker_report(std::int32_t rank) {
  WorkerReport report;
  report.rank = rank;
  report.iterations = 10;
  report.samples = 320;
  report.phases[Phase::kForward] = 2;
  report.phases[Phase::kBackward] = 4;
  report.phases[Phase::kPush] = 1;
  report.phases[Phase::kWait] = 1;
  report.overlapped_push = 0.5;
  report.overlapped_pull = 0.25;
  report.bytes_pushed = 1000;
  report.bytes_pulled = 2000;
  report.loss_first = 2.5;
  report.loss_last = 0.5;
  report.accuracy = rank == 0 ? 0.9 : -1;
  report.evaluations = {{5, 1.25, 0.5}, {10, 2.5, 0.9}};
  report.parameters_hash = "00ff";
  report.iteration_seconds = {0.5, 1.5, 1};
  report.peak_bytes = 1 << 20;
  return report;
}

void expect_same(const WorkerReport& a, const WorkerReport& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.iterations, b.iterations);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.phases.seconds, b.phases.seconds);
  EXPECT_EQ(a.overlapped_push, b.overlapped_push);
  EXPECT_EQ(a.overlapped_pull, b.overlapped_pull);
  EXPECT_EQ(a.bytes_pushed, b.bytes_pushed);
  EXPECT_EQ(a.bytes_pulled, b.bytes_pulled);
  EXPECT_EQ(a.loss_first, b.loss_first);
  EXPECT_EQ(a.loss_last, b.loss_last);
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_EQ(a.parameters_hash, b.parameters_hash);
  EXPECT_EQ(a.iteration_seconds, b.iteration_seconds);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
  EXPECT_EQ(a.link, b.link);
  ASSERT_EQ(a.evaluations.size(), b.evaluations.size());
  for (std::size_t i = 0; i < a.evaluations.size(); ++i) {
    EXPECT_EQ(a.evaluations[i].iteration, b.evaluations[i].iteration);
    EXPECT_EQ(a.evaluations[i].seconds, b.evaluations[i].seconds);
    EXPECT_EQ(a.evaluations[i].accuracy, b.evaluations[i].accuracy);
  }
}

TEST(Report, EvaluationsAreBoundedAndTheFirstAndTheNewestAreThere) {
  std::vector<WorkerReport::Evaluation> evaluations;
  for (Iteration iteration = 1; iteration <= 1'000'000; ++iteration) {
    add_evaluation(evaluations, {iteration, 0, 0.5});
    ASSERT_EQ(evaluations.back().iteration, iteration);
    ASSERT_LE(evaluations.size(), 10'000U);
    ASSERT_TRUE(iteration > 10'000 || evaluations.size() == static_cast<std::size_t>(iteration)) << "none is left out";
  }
  EXPECT_EQ(evaluations.front().iteration, 1);
  EXPECT_TRUE(std::ranges::is_sorted(evaluations, {}, &WorkerReport::Evaluation::iteration));
}

TEST(Report, WhatAWorkerTellsArrivesBitForBit) {
  std::mt19937_64 random(1);
  const auto real = [&] { return std::uniform_real_distribution<double>(0, 1000)(random); };
  for (int i = 0; i < 500; ++i) {
    WorkerReport report = worker_report(static_cast<std::int32_t>(random() % 1000));
    report.iterations = static_cast<std::int64_t>(random() >> 1);
    for (double& phase : report.phases.seconds) phase = real();
    report.loss_first = real();
    report.loss_last = -real();
    report.iteration_seconds = {};
    for (std::uint64_t time = random() % 5; time > 0; --time) report.iteration_seconds.add(real());
    report.link = {.window = static_cast<std::int64_t>(random() >> 1),
                   .bandwidth = real(),
                   .round_trip = real(),
                   .overtakes = 1 + i,
                   .reply_overtakes = 2 + i,
                   .turns = 3 + i,
                   .window_full = 4 + i,
                   .strangers = 5 + i,
                   .slowest = "server 1",
                   .slowest_bandwidth = real(),
                   .fastest_bandwidth = real()};
    const auto again = decode_worker_report(encode(report));
    ASSERT_TRUE(again.ok()) << again.status().message();
    expect_same(*again, report);
    if (::testing::Test::HasFailure()) FAIL() << "case " << i;
  }
}

TEST(Report, WhatAServerTellsArrives) {
  const ServerReport report{.rank = 3,
                            .peak_bytes = 5'000'000'000,
                            .gradient_bytes_high = 7,
                            .updates = 9,
                            .reorderings = 11,
                            .link = {.window = 5, .reply_overtakes = 6},
                            .values_wait = 0.25,
                            .shares_process = 1};
  const auto again = decode_server_report(encode(report));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->rank, 3);
  EXPECT_EQ(again->peak_bytes, 5'000'000'000);
  EXPECT_EQ(again->gradient_bytes_high, 7);
  EXPECT_EQ(again->updates, 9);
  EXPECT_EQ(again->reorderings, 11);
  EXPECT_EQ(again->link, report.link);
  EXPECT_EQ(again->values_wait, 0.25);
  EXPECT_EQ(again->shares_process, 1);
}

TEST(Report, ALossThatIsNotFiniteSurvives) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<WorkerReport> workers = {worker_report(0)};
    workers[0].loss_last = loss;
    const auto again = decode_worker_report(encode(workers[0]));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_FALSE(std::isfinite(again->loss_last));
    EXPECT_EQ(again->loss_first, 2.5);
    const auto report = job_report({}, {.workers = 1, .servers = 1}, {*again}, {});
    ASSERT_TRUE(report.ok());
    const Json parsed = Json::parse(report->dump());
    EXPECT_TRUE(parsed["loss_last"].is_null());
    EXPECT_THAT(report_text(parsed), HasSubstr("2.5000 at the first iteration, - at the last"));
    EXPECT_EQ(report_text(*report), report_text(parsed)) << "the coordinator's own print";
  }
}

TEST(Report, WhatIsMalformedIsRefused) {
  const std::string whole = encode(worker_report(1));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto report = decode_worker_report(whole.substr(0, length));
    ASSERT_FALSE(report.ok()) << length;
    ASSERT_EQ(report.status().kind(), ErrorKind::kCorrupt);
  }
  const Json good = Json::parse(whole);
  for (const auto& [key, value] : good.items()) {
    Json bad = good;
    bad.erase(key);
    EXPECT_FALSE(decode_worker_report(bad.dump()).ok()) << "without " << key;
    bad = good;
    bad[key] = Json::object();
    EXPECT_FALSE(decode_worker_report(bad.dump()).ok()) << key << " is an object";
  }
  Json bad = good;
  bad["phases"].erase(0);
  EXPECT_FALSE(decode_worker_report(bad.dump()).ok()) << "a phase too few";
  // What is deeper than any stack: copied or written out it would end the process.
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(decode_worker_report(deep).status().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(decode_server_report(deep).status().kind(), ErrorKind::kCorrupt);
  bad = good;
  bad["batching"] = deep;
  EXPECT_EQ(decode_worker_report(bad.dump()).status().kind(), ErrorKind::kCorrupt);
  for (const char* text : {"", "[]", "1", "{}", "null", "{\"rank\":"}) {
    EXPECT_EQ(decode_server_report(text).status().kind(), ErrorKind::kCorrupt) << text;
    EXPECT_EQ(decode_worker_report(text).status().kind(), ErrorKind::kCorrupt) << text;
  }
}

TEST(Report, WorkersThatEndWithOtherParametersAreRefusedAndNamed) {
  std::vector<WorkerReport> workers = {worker_report(0), worker_report(1), worker_report(2)};
  workers[2].parameters_hash = "beef";
  const auto report = job_report({}, {.workers = 3, .servers = 1}, workers, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(report.status().message(), HasSubstr("workers 0 and 2 hold different parameters at the end (00ff against beef)"));
  for (const char* sync : {"asp", "ssp", "elastic-bsp"}) {
    job::JobSpec settings;
    give(settings, "sync", sync);
    EXPECT_FALSE(job_report(settings, {.workers = 3, .servers = 1}, workers, {}).ok()) << sync << ": all end with the final values";
  }
}

TEST(Report, TheJobsIsMadeOfItsWorkers) {
  std::vector<WorkerReport> workers = {worker_report(0), worker_report(1)};
  workers[1].phases[Phase::kForward] = 6;  // 12 s in all instead of 8
  workers[1].loss_last = 1.5;
  const auto made =
      job_report({}, {.workers = 2, .servers = 1}, workers, {{.rank = 0, .peak_bytes = 1, .gradient_bytes_high = 2, .updates = 3}});
  ASSERT_TRUE(made.ok());
  const Json& report = *made;
  EXPECT_EQ(report["iterations"], 10);
  EXPECT_EQ(report["samples"], 640);
  EXPECT_EQ(report["seconds"], 12.0) << "the slowest worker's";
  EXPECT_EQ(report["samples_per_second"], 640.0 / 12);
  EXPECT_EQ(report["loss_last"], 1.0);
  EXPECT_EQ(report["accuracy"], 0.9);
  EXPECT_EQ(report["bytes_pushed"], 2000);
  EXPECT_EQ(report["bytes_pulled"], 4000);
  EXPECT_EQ(report["iteration_seconds"]["median"], 1.0);
  EXPECT_EQ(report["iteration_seconds"]["min"], 0.5);
  EXPECT_EQ(report["iteration_seconds"]["max"], 1.5);
  EXPECT_EQ(report["phases"]["forward"], 0.4) << "per iteration, mean over the workers";
  EXPECT_EQ(report["per_worker"][1]["computing"], 10.0);
  EXPECT_EQ(report["per_worker"][0]["waiting_share"], 0.25);
  EXPECT_EQ(report["per_server"][0]["updates"], 3);
  EXPECT_EQ(report["schedule"], "tuned");
  const auto reference = job_report({}, {.workers = 2, .processes = JobShape::Processes::kOne}, workers, {});
  EXPECT_EQ((*reference)["seconds"], 20.0) << "the reference's workers take turns";
  EXPECT_EQ((*reference)["schedule"], "reference");
}

TEST(Report, LinksOfProcessesAndReorderingsOfPlacesAreGathered) {
  std::vector<WorkerReport> workers = {worker_report(0), worker_report(1)};
  workers[0].link = {
      .window = 300'000, .bandwidth = 100e6, .round_trip = 0.002, .overtakes = 3, .turns = 5, .window_full = 7, .strangers = 8};
  workers[1].link = {.window = 400'000, .overtakes = 10, .turns = 2};  // its link was never busy
  std::vector<ServerReport> servers = {
      {.rank = 0, .reorderings = 4, .link = {.window = 500'000, .bandwidth = 120e6, .reply_overtakes = 6}},
      {.rank = 1, .reorderings = 1, .link = workers[1].link, .shares_process = 1}};
  servers[1].link.reply_overtakes = 20;
  const auto made = job_report({}, {.workers = 2, .servers = 2, .both = 1}, workers, servers);
  ASSERT_TRUE(made.ok());
  const Json& ordering = (*made)["ordering"];
  EXPECT_EQ(ordering["places"], "all");
  EXPECT_EQ(ordering["worker_egress"], 13);
  EXPECT_EQ(ordering["server_ingress"], 5);
  EXPECT_EQ(ordering["server_egress"], 26);
  EXPECT_EQ(ordering["turns"], 7) << "a process of two roles counts once";
  EXPECT_EQ(ordering["window_full"], 7);
  EXPECT_EQ((*made)["strangers"], 8);
  const Json& link = (*made)["link"];
  EXPECT_EQ(link["rule"], "auto");
  EXPECT_EQ(link["window"], 400'000) << "the median of the three processes";
  EXPECT_EQ(link["bandwidth"], 100e6) << "the lower median of those that measured one";
  EXPECT_EQ(link["measured"], 2);
  EXPECT_EQ(link["processes"], 3);
  const std::string all = report_text(*made, Detail::kAll);
  EXPECT_THAT(all, HasSubstr("window 400.0 kB (auto); 100.0 MB/s and a round trip of 2"));
  EXPECT_THAT(all, HasSubstr("2 of 3 processes\n"));
  EXPECT_THAT(report_text(*made), HasSubstr("strangers      8 connections turned away\n"));
  const auto unused = job_report({}, {.workers = 1, .servers = 1}, {worker_report(0)}, {});
  EXPECT_TRUE((*unused)["link"]["bandwidth"].is_null());
  EXPECT_THAT(report_text(*unused, Detail::kAll), HasSubstr("no link was busy for long enough"));
  EXPECT_TRUE(
      (*job_report({}, {.workers = 1, .processes = JobShape::Processes::kOne}, {worker_report(0)}, {}))["ordering"].is_null());
}

TEST(Report, NamesTheServerWhoseValuesWaitLongest) {
  const auto told = [](double first, double second) {
    const auto made =
        job_report({}, {.workers = 1, .servers = 3, .addresses = {{Rank{1}, "10.0.0.4:41022"}}}, {worker_report(0)},
                   {{.rank = 0, .values_wait = first}, {.rank = 1, .values_wait = second}, {.rank = 2, .values_wait = first}});
    return std::pair((*made)["slowest_server"], report_text(*made));
  };
  const auto [slow, text] = told(0.0027, 0.117);  // of iterations of 1 s
  EXPECT_EQ(slow, "server 1 (10.0.0.4:41022): values wait 117.0 ms before they leave, elsewhere 2.7 ms");
  EXPECT_THAT(text, HasSubstr("slowest        server 1 (10.0.0.4:41022): values wait"));
  EXPECT_TRUE(told(0.0027, 0.04).first.is_null()) << "no iteration shows it";
  EXPECT_TRUE(told(0.1, 0.19).first.is_null()) << "not twice as long";
  EXPECT_TRUE((*job_report({}, {.workers = 1, .servers = 1}, {worker_report(0)}, {{.rank = 0, .values_wait = 1}}))["slowest_server"]
                  .is_null())
      << "there is no other";
}

TEST(Report, NamesTheSlowWay) {
  const auto told = [](double slowest) {
    std::vector<WorkerReport> workers = {worker_report(0), worker_report(1)};
    workers[0].link = {.slowest = "server 0", .slowest_bandwidth = 60e6, .fastest_bandwidth = 60e6};
    workers[1].link = {.slowest = "server 0", .slowest_bandwidth = slowest, .fastest_bandwidth = slowest};
    const LinkReport servers{.slowest = "worker 1", .slowest_bandwidth = 5e6, .fastest_bandwidth = 58e6};
    return (*job_report({}, {.workers = 2, .servers = 1}, workers,
                        {{.rank = 0, .link = slowest < 5e6 ? servers : workers[0].link}}))["link"]["slowest"];
  };
  EXPECT_EQ(told(3e6), "way from worker 1 to server 0: 3.0 MB/s while something is on it, elsewhere 58.0 MB/s");
  EXPECT_TRUE(told(31e6).is_null()) << "not half as fast";
}

TEST(Report, AnEvaluationWithoutATestSetHasNoAccuracy) {
  WorkerReport worker = worker_report(0);
  worker.accuracy = -1;
  worker.evaluations = {{2, 1.5, 0.25}, {4, 3, -1}};
  const auto report = job_report({}, {.workers = 1, .servers = 1}, {worker}, {});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE((*report)["accuracy"].is_null());
  EXPECT_EQ((*report)["evaluations"][0]["accuracy"], 0.25);
  EXPECT_TRUE((*report)["evaluations"][1]["accuracy"].is_null());
}

TEST(Report, AJobWithoutIterationsHasOne) {
  const auto report = job_report({}, {.workers = 1, .servers = 1}, {WorkerReport{}}, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ((*report)["samples_per_second"], 0);
  EXPECT_TRUE((*report)["accuracy"].is_null());
  EXPECT_THAT(report_text(*report), HasSubstr("speed          0 iterations in "));
}

}  // namespace
}  // namespace paceline::report
