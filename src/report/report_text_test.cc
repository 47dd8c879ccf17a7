#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/report.h"

namespace paceline::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkerReport a_worker(std::int32_t rank) {
  WorkerReport report;
  report.rank = rank;
  report.iterations = 10;
  report.samples = 320;
  report.phases[Phase::kForward] = 6;
  report.phases[Phase::kPush] = 1;
  report.phases[Phase::kWait] = 1;
  report.loss_first = 2.5;
  report.loss_last = 0.5;
  report.accuracy = rank == 0 ? 0.9 : -1;
  report.parameters_hash = "00ff";
  return report;
}

TEST(ReportText, BeginsWithWhatCameOutHowFastAndWhoWaited) {
  WorkerReport slow = a_worker(1);
  slow.phases[Phase::kForward] = 21;  // and 2 of waiting
  auto report = *job_report({}, {.workers = 2, .servers = 1}, {a_worker(0), slow}, {});
  report["tuned"] = {{"why", "slices of 50000"}};
  const auto labels = [&](Detail detail) {
    std::vector<std::string> found;
    const std::string text = report_text(report, detail);
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      if (text[at] != ' ' && text[at] != '\n') found.push_back(text.substr(at, text.find_first_of(" \n", at) - at));
    return found;
  };
  std::vector<std::string> usual = labels(Detail::kUsual);
  EXPECT_THAT(usual, ElementsAre("trained", "how", "accuracy", "loss", "speed", "waiting", "moved", "iteration", "where", "worker",
                                 "parameters"));
  usual.insert(usual.end(), {"tuned", "link", "ordering"});
  EXPECT_EQ(labels(Detail::kAll), usual);
  EXPECT_THAT(report_text(report), HasSubstr("waiting        worker 0 the most, 25.0 % of its time; worker 1 the least, 8.7 %\n"));
  const auto alone = job_report({}, {.workers = 1, .servers = 1}, {a_worker(0)}, {});
  EXPECT_THAT(report_text(*alone), HasSubstr("waiting        25.0 % of the time\n"));
}

TEST(ReportText, SaysWhatWasTrainedAsAPersonWould) {
  job::JobSpec job;
  const auto trained = [&](JobShape shape, std::int64_t iterations) {
    std::vector<WorkerReport> workers;
    for (std::int32_t rank = 0; rank < shape.workers; ++rank) {
      workers.push_back(a_worker(rank));
      workers.back().iterations = iterations;
    }
    return report_text(*job_report(job, shape, workers, {}));
  };
  EXPECT_THAT(trained({.workers = 1, .servers = 1}, 1), HasSubstr("lenet on mnist-5k, 1 worker, 1 server\n"));
  EXPECT_THAT(trained({.workers = 1, .servers = 1}, 1), HasSubstr(", 1 iteration\n"));
  EXPECT_THAT(trained({.workers = 2, .servers = 2, .both = 2}, 5), HasSubstr("2 workers, 2 servers, each process both\n"));
  EXPECT_THAT(trained({.workers = 2}, 5), HasSubstr("2 workers, no server\n"));
  job.task.model = "replay:table.json";
  job.task.dataset = "none";
  EXPECT_THAT(trained({.workers = 2}, 5), HasSubstr("trained        replay:table.json, 2 workers, no server\n"));
  job.task.model = job.task.dataset = "(own)";
  EXPECT_THAT(trained({.workers = 2}, 5), HasSubstr("trained        a program's own model, 2 workers, no server\n"));
}

}  // namespace
}  // namespace paceline::report
