// Whole jobs over every transport, healthy and faulty: the bits are those of plain loops, and everybody hears the same reason when
// a job ends early.
#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/files_testing.h"
#include "replay/reference.h"
#include "runtime_cluster.h"

namespace paceline::runtime::testing {
namespace {

using ::testing::HasSubstr;

class RuntimeTest : public ::testing::TestWithParam<Backend> {};

TEST_P(RuntimeTest, AJobGivesTheBitsOfPlainLoops) {
  Job job;
  job.workers = 3;
  job.settings.update.learning_rate.base = 0.001;
  if (is_faulty(GetParam())) job.iterations = 30;
  for (const char* schedule : {"default", "layer-wise", "p3"}) {
    for (const char* optimizer : {"momentum", "adam"}) {
      // Processes of one role; some, then all that are both, clipping, for which servers talk to each other.
      const bool adam = optimizer == std::string("adam"), p3 = schedule == std::string("p3");
      job.both = p3 ? (adam ? 3 : 1) : 0;
      job.servers = job.both == 3 ? 3 : 2;
      job.settings.update.clip_norm = p3 ? 0.5 : 0;
      SCOPED_TRACE(fmt::format("{} {} {} both", schedule, optimizer, job.both));
      job.settings.schedule.name = schedule;
      give(job.settings, "optimizer", optimizer);
      Cluster cluster(GetParam(), job);
      const std::vector<std::vector<float>> parameters = cluster.work_all();
      expect_same_bits(parameters, expected_parameters(job, job.iterations));
      ASSERT_TRUE(cluster.final_report) << cluster.verdict->reason;
      EXPECT_EQ((*cluster.final_report)["workers"], 3);
      EXPECT_EQ((*cluster.final_report)["per_server"].size(), static_cast<std::size_t>(job.servers));
      EXPECT_EQ((*cluster.final_report)["role"], job.both == 0 ? "separate" : job.both == 3 ? "both" : "mixed");
      if (is_faulty(GetParam())) {
        const transport::FaultCounts faults = cluster.faults();
        EXPECT_GE(faults.cuts, 1u);
        EXPECT_GE(faults.corruptions, 1u);
        EXPECT_GE(faults.reorderings, 1u);
      }
    }
  }
}

TEST_P(RuntimeTest, AWorkerThatWantsServersAndAJobWithoutThemDoNotFitAndTheOtherWayRound) {
  for (const auto& [servers, collective, expected] :
       {std::tuple{0, "none", "wants servers, but the coordinator was started with --servers 0"},
        {2, "loop3", "but the coordinator was started for 2 servers; start it with --servers 0"}}) {
    Job job;
    job.workers = 1;
    job.servers = servers;
    job::JobSpec settings;
    give(settings, "collective", collective);
    Cluster cluster(GetParam(), job);
    std::vector<float> parameters;
    const Status refused = cluster.work(0, parameters, settings);
    EXPECT_EQ(refused.kind(), ErrorKind::kBadRequest);
    EXPECT_THAT(refused.message(), HasSubstr(expected));
    cluster.interrupt();
    cluster.join();
  }
}

TEST_P(RuntimeTest, AReplayGivesTheBitsOfItsReferenceAndChecksEveryValueWithoutBarriersToo) {
  const replay::LayerTable layers{
      {{"a", 3000, 1e-4, 2e-4}, {"b", 1, 0, 0}, {"c", 40'000, 1e-4, 0}, {"d", 5000, 0, 1e-4}, {"e", 700, 0, 0}}};
  for (const auto& [schedule, sync, speed] : {std::array{"layer-wise", "bsp", ""},
                                              {"p3", "bsp", "1,0.5,1"},
                                              {"p3", "asp", "1,1,0.3"},
                                              {"default", "ssp", "1,1,0.3"},
                                              {"ibatch", "elastic-bsp", "1,1,0.3"}}) {
    SCOPED_TRACE(fmt::format("{} {}", schedule, sync));
    Job job;
    job.workers = 3;
    job.settings.task.model = "replay:made up";
    job.settings.schedule.name = schedule;
    give(job.settings, "sync", sync);
    give(job.settings, "speed", speed);
    job.settings.task.scale = 8;  // slices of 6250
    job.settings.task.iterations = 30;
    Cluster cluster(GetParam(), job);
    std::vector<std::future<Status>> ends;
    for (std::int32_t rank = 0; rank < job.workers; ++rank)
      ends.push_back(std::async(std::launch::async, [&, rank] { return cluster.replay(rank, layers, job.settings); }));
    for (auto& end : ends) {
      const Status status = end.get();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    cluster.join();
    ASSERT_TRUE(cluster.final_report) << cluster.verdict->reason;
    if (job.settings.sync.kind != sync::SyncKind::kBsp) continue;
    const auto reference = replay::run_reference(
        layers, job.settings, job.workers, [](Iteration) {}, [] { return false; });
    ASSERT_TRUE(reference.ok());
    EXPECT_EQ((*cluster.final_report)["parameters_hash"], reference->front().parameters_hash);
  }
}

TEST_P(RuntimeTest, WorkersThatDisagreeAllHearTheSameDifference) {
  Job job;
  Cluster cluster(GetParam(), job);
  job::JobSpec other = job.settings;
  other.update.optimizer.kind = tensor::OptimizerKind::kAdam;
  std::vector<float> a, b;
  auto first = std::async(std::launch::async, [&] { return cluster.work(0, a, job.settings); });
  auto second = std::async(std::launch::async, [&] { return cluster.work(1, b, other); });
  const Status one = first.get(), two = second.get();
  EXPECT_EQ(one.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(one.message(), HasSubstr("disagree on --optimizer: sgd against adam"));
  EXPECT_EQ(one.message(), two.message());
  cluster.join();
  EXPECT_EQ(cluster.verdict->reason, one.message());
}

TEST_P(RuntimeTest, AnInterruptEndsTheJobAfterTheSameIterationEverywhere) {
  Job job;
  job.iterations = 1'000'000;
  job.both = 2;
  Cluster cluster(GetParam(), job);
  const auto [ends, parameters, last] = cluster.work_until_interrupted(5);
  EXPECT_EQ(ends[0].kind(), ErrorKind::kCancelled);
  EXPECT_EQ(ends[1].message(), "interrupted by the test");
  ASSERT_TRUE(cluster.final_report);
  EXPECT_EQ((*cluster.final_report)["iterations"], last);
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], expected_parameters(job, last));
}

TEST_P(RuntimeTest, AProgramThatIsInterruptedBehindItsLastStepStillHasTheCheckpointOfIt) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("paceline-runtime-{}", ::getpid());
  Job job;
  job.workers = job.servers = 1;
  job.interrupted_at_end = true;
  job.settings.saving.directory = folder.string();
  job.settings.saving.every = 0;
  {
    Cluster cluster(GetParam(), job);
    std::vector<float> parameters;
    const Status end = cluster.work(0, parameters, job.settings);
    EXPECT_EQ(end.message(), "interrupted by the test");
    cluster.join();
    EXPECT_EQ(cluster.verdict->kind, wire::StopKind::kInterrupted);
    EXPECT_THAT(cluster.saved, ::testing::ElementsAre(std::pair<std::string, Iteration>("server 0", job.iterations)));
  }
  std::filesystem::remove_all(folder);
}

TEST_P(RuntimeTest, WhatIsNoProgressIsShownToNobody) {
  Job job;
  job.workers = 1;
  job.iterations = 1;
  Cluster cluster(GetParam(), job);
  std::vector<float> parameters;
  const auto tell = [](WorkerProcess& worker, Iteration) {
    for (const char* text : {"", "[]", "nonsense", R"({"rank":"0"})", R"({"rank":0.5})", R"({"iteration":null})", R"({"last":[]})",
                             R"({"rank":0,"accuracy":"high"})", R"({"rank":0,"iteration":1,"last":1,"loss":null})"})
      worker.send_progress(text);
  };
  const Status status = cluster.work(0, parameters, job.settings, tell);
  EXPECT_TRUE(status.ok()) << status.message();
  cluster.join();
  ASSERT_EQ(cluster.progress.size(), 1u);
  EXPECT_EQ(cluster.progress[0]["last"], 1);
}

// Reads a timeline as a viewer does: how many ways of units there are, and that none of their stages begins before the one before
// it, whichever process's clock said so, by more than the clocks' error. Nanoseconds would be lost in minutes if they were not
// aligned.
std::size_t count_ordered_trips(const report::Json& trace) {
  const double error = trace["otherData"]["clock_error_seconds"].get<double>() * 1e6;
  std::size_t trips = 0;
  double before = 0;
  for (const report::Json& event : trace["traceEvents"]) {
    if (event["ph"] != "b") continue;
    const double at = event["ts"];
    if (event["name"].get<std::string>().starts_with("unit ")) {
      ++trips;
    } else {
      EXPECT_GE(at, before - error - 0.001) << event << " comes before what led to it; the clocks' error is " << error << " us";
    }
    before = at;
  }
  return trips;
}

TEST_P(RuntimeTest, ATimelineIsInOrderThoughNoTwoClocksAgree) {
  Job job;
  job.traced = true;
  job.workers = 3;
  job.both = 1;
  job.settings.schedule.name = "p3";
  Cluster cluster(GetParam(), job);
  const std::vector<std::vector<float>> parameters = cluster.work_all();
  paceline::testing::MemoryFiles files;
  const auto written = cluster.timeline.write(files, "job.json");
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_EQ((*written)["processes"].size(), 4u) << *written;
  EXPECT_EQ((*written)["dropped"], 0);
  EXPECT_LT((*written)["clock_error_seconds"].get<double>(), 1) << "clocks are minutes apart";
  EXPECT_EQ(files.files.size(), 1u);
  const auto& bytes = files.files.at("job.json")->bytes;
  const report::Json trace = report::Json::parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto plan = make_plan(job.settings, table(), job.workers, job.servers, 1);
  EXPECT_EQ(count_ordered_trips(trace), (*plan)->units().units.size() * 3 * static_cast<std::size_t>(job.iterations));
  expect_same_bits(parameters, expected_parameters(job, job.iterations));
}

INSTANTIATE_TEST_SUITE_P(Backends, RuntimeTest,
                         ::testing::Values(Backend::kInproc, Backend::kTcp, Backend::kFaultyInproc, Backend::kFaultyTcp), name_of);

}  // namespace
}  // namespace paceline::runtime::testing
