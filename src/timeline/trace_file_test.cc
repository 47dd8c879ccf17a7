#include "timeline/trace_file.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/files_testing.h"
#include "job/option.h"
#include "timeline/collector.h"

namespace paceline::timeline {
namespace {

using wire::Happening;
using wire::Role;

TimePoint at(std::int64_t nanoseconds) { return TimePoint(Duration(nanoseconds)); }

JobTimeline small_job() {
  JobTimeline job;
  job.layers = {"a \"quoted\"\n\xff name"};
  job.units = {{Rank{0}, Layer{0}, Bytes{400}}};
  JobTimeline::Process& worker = job.processes.emplace_back();
  worker.name = {Role::kWorker, Rank{0}};
  worker.record.worker = Rank{0};
  worker.record.clock = {.remote = 0, .local = 5'000, .drift = 0, .error = 40};
  worker.record.parts = {{.thread = wire::TimelineThread::kTraining,
                          .dropped = 3,
                          .events = {{.what = Happening::kForward, .iteration = 1, .begin = 1'000, .end = 2'234}}},
                         {.thread = wire::TimelineThread::kLoop,
                          .dropped = 0,
                          .events = {{.what = Happening::kQueued,
                                      .message = wire::MessageKind::kPush,
                                      .peer = 0,
                                      .iteration = 1,
                                      .begin = 3'000,
                                      .end = 3'000}}}};
  return job;
}

report::Json read(const testing::MemoryFiles& files, const std::string& path) {
  const auto& bytes = files.files.at(path)->bytes;
  return report::Json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

TEST(TimelineFile, IsJsonWithTimesFromTheFirstEventWhateverLayersAreCalled) {
  testing::MemoryFiles files;
  const auto written = write_timeline(files, "t.json", small_job());
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ((*written)["file"], "t.json");
  EXPECT_EQ((*written)["events"], 2);
  EXPECT_EQ((*written)["dropped"], 3);
  EXPECT_DOUBLE_EQ((*written)["clock_error_seconds"], 40e-9);
  const report::Json trace = read(files, "t.json");
  EXPECT_EQ(trace["otherData"]["dropped"], 3);
  const report::Json& events = trace["traceEvents"];
  const auto forward =
      std::find_if(events.begin(), events.end(), [](const report::Json& event) { return event.value("cat", "") == "forward"; });
  ASSERT_TRUE(forward != events.end());
  EXPECT_DOUBLE_EQ((*forward)["ts"], 0);
  EXPECT_DOUBLE_EQ((*forward)["dur"], 1.234);
  EXPECT_EQ((*forward)["args"]["layer"].get<std::string>().substr(0, 10), "a \"quoted\"");
  EXPECT_EQ((*forward)["name"].get<std::string>().substr(0, 18), "forward a \"quoted\"");
}

TEST(TimelineFile, TheSummaryNamesTheLayersThatTrainingWaitedForLongest) {
  JobTimeline job = small_job();
  job.layers = {"conv1", "fc1", "fc2", "fc3", "fc4", "fc5 \xff"};
  auto& events = job.processes[0].record.parts[0].events;
  for (std::uint32_t layer = 0; layer < 6; ++layer) {
    const std::int64_t wait = layer == 1 ? 10 : 1'000 * layer;
    events.push_back({.what = Happening::kGate, .unit = layer, .iteration = 1, .begin = 0, .end = wait});
    events.push_back({.what = Happening::kGate, .unit = layer, .iteration = 2, .begin = 9'000, .end = 9'000 + 3 * wait});
  }
  testing::MemoryFiles files;
  const auto written = write_timeline(files, "t.json", job);
  ASSERT_TRUE(written.ok()) << written.status().message();
  const report::Json& gates = (*written)["gates"];
  ASSERT_EQ(gates.size(), 5u) << "conv1, which nobody waited for, is left out";
  const char* const kOrder[] = {"fc5 \xef\xbf\xbd", "fc4", "fc3", "fc2", "fc1"};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(gates[i]["layer"], kOrder[i]);
  EXPECT_DOUBLE_EQ(gates[0]["mean_seconds"], 10'000e-9);
  EXPECT_DOUBLE_EQ(gates[0]["longest_seconds"], 15'000e-9);
  EXPECT_DOUBLE_EQ(gates[4]["mean_seconds"], 20e-9);
}

TEST(TimelineFile, ADiskThatFailsAtAnyOperationLeavesNothing) {
  testing::MemoryFiles counting;
  ASSERT_TRUE(write_timeline(counting, "t.json", small_job()).ok());
  for (int operation = 0; operation < counting.operations; ++operation) {
    testing::MemoryFiles files;
    files.fail_at = operation;
    EXPECT_FALSE(write_timeline(files, "t.json", small_job()).ok()) << "operation " << operation;
    EXPECT_TRUE(files.files.empty()) << "operation " << operation;
  }
}

TEST(TimelineCollector, AsksInARowAndKeepsToTheQuickestAnswer) {
  TimelineCollector collector;
  EXPECT_EQ(collector.ask(1, at(0)), 1u);
  EXPECT_EQ(collector.ask(1, at(5)), std::nullopt) << "one question is open";
  EXPECT_EQ(collector.on_reading(2, 1, {0}, at(6)), std::nullopt) << "nobody asked process 2";
  EXPECT_EQ(collector.on_reading(1, 7, {0}, at(6)), std::nullopt) << "nobody asked this";
  std::int64_t now = 0;
  std::optional<std::uint32_t> question = 1;
  int answers = 0;
  for (; question; ++answers) {
    now += answers == 3 ? 100 : 5'000;  // one is quick
    question = collector.on_reading(1, *question, {now + 70'000 - (answers == 3 ? 50 : 2'000)}, at(now));
  }
  EXPECT_EQ(answers, TimelineCollector::kFirstQuestions);
  EXPECT_EQ(collector.ask(1, at(now)), static_cast<std::uint32_t>(answers) + 1) << "and later fewer";
}

TEST(TimelineCollector, ProcessesWhoseClockNobodyKnowsAreLeftOut) {
  TimelineCollector collector;
  EXPECT_TRUE(collector.empty());
  wire::TensorTable table;
  table.tensors.push_back({.name = "w", .dtype = "float32", .shape = {100}, .layer = {0}, .group = 0});
  table.layers = {"fc"};
  collector.begin({}, table, 2, 1);
  for (const session::PeerId peer : {1, 2}) {
    collector.on_part(peer, {Role::kWorker, Rank{static_cast<std::int32_t>(peer) - 1}},
                      {.thread = wire::TimelineThread::kTraining, .dropped = 0, .events = {{.begin = 5, .end = 6}}});
  }
  EXPECT_FALSE(collector.empty());
  std::int64_t now = 100;
  for (auto question = collector.ask(2, at(now)); question; now += 10)
    question = collector.on_reading(2, *question, {now}, at(now + 10));
  testing::MemoryFiles files;
  const auto written = collector.write(files, "t.json");
  ASSERT_TRUE(written.ok()) << written.status().message();
  ASSERT_EQ((*written)["processes"].size(), 1u);
  EXPECT_EQ((*written)["processes"][0]["name"], "worker 1");
}

}  // namespace
}  // namespace paceline::timeline
