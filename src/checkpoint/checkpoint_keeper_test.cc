#include "checkpoint/checkpoint_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/testing_checkpoint.h"
#include "job/testing.h"

namespace paceline::checkpoint {
namespace {

using job::testing::give;
using namespace testing;
using ::testing::HasSubstr;

class Keeper : public ::testing::Test {
 protected:
  CheckpointKeeper make(std::int32_t servers = 1) {
    return CheckpointKeeper(
        files_, {.workers = 2, .servers = servers, .release = "0.1.0", .keep = 2, .warn = [this](const std::string& text) {
                   warnings_.push_back(text);
                 }});
  }
  static std::string said(const PartSummary& part) { return encode(part); }
  // All parts of a job with one server.
  void save_all(CheckpointKeeper& keeper, Iteration iteration) {
    keeper.on_saved({wire::Role::kServer, Rank{0}}, iteration, said(write_server(files_, 0, iteration, {{0, kElements}}).value()));
    for (std::int32_t rank = 0; rank < 2; ++rank)
      keeper.on_saved({wire::Role::kWorker, Rank{rank}}, iteration, said(write_worker(files_, rank, iteration).value()));
    keeper.finish();
  }

  MemoryFiles files_;
  std::vector<std::string> warnings_;
};

TEST_F(Keeper, MakesACheckpointOnceEverybodyHasSaved) {
  auto keeper = make();
  job::JobSpec agreed = spec();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  EXPECT_EQ(keeper.newest(), "");
  keeper.on_saved({wire::Role::kServer, Rank{0}}, 10, said(write_server(files_, 0, 10, {{0, kElements}}).value()));
  keeper.finish();
  EXPECT_EQ(keeper.newest(), "");
  EXPECT_EQ(loadable(files_), 0);
  save_all(keeper, 10);
  EXPECT_EQ(keeper.newest(), "/runs/a/00000010");
  EXPECT_EQ(loadable(files_), 10);
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
}

TEST_F(Keeper, APartThatCouldNotBeWrittenVoidsItsCheckpointAndGivesTheRoomBack) {
  auto keeper = make();
  job::JobSpec agreed = spec();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  save_all(keeper, 10);
  keeper.on_saved(
      {wire::Role::kServer, Rank{0}}, 20,
      said({.name = "server-0.bin", .failure = "cannot write /runs/a/00000020/server-0.bin.tmp: No space left on device"}));
  for (std::int32_t rank = 0; rank < 2; ++rank)
    keeper.on_saved({wire::Role::kWorker, Rank{rank}}, 20, said(write_worker(files_, rank, 20).value()));
  keeper.finish();
  EXPECT_EQ(loadable(files_), 10);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], ::testing::AllOf(HasSubstr("server 0"), HasSubstr("iteration 20"), HasSubstr("No space left"),
                                             HasSubstr("/runs/a/00000010")));
  EXPECT_EQ(list_checkpoints(files_, kDirectory)->size(), 1U);
  save_all(keeper, 30);
  EXPECT_EQ(loadable(files_), 30);
}

TEST_F(Keeper, AJobWhoseLastCheckpointLacksAPartIsToldSo) {
  auto keeper = make();
  job::JobSpec agreed = spec();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  EXPECT_THAT(keeper.last_one().message(), HasSubstr("server-0.bin, worker-0.bin, worker-1.bin are written"));
  save_all(keeper, 10);
  EXPECT_TRUE(keeper.last_one().ok());
  for (std::int32_t rank = 0; rank < 2; ++rank)
    keeper.on_saved({wire::Role::kWorker, Rank{rank}}, 20, said(write_worker(files_, rank, 20).value()));
  keeper.finish();
  const Status status = keeper.last_one();
  EXPECT_EQ(status.kind(), ErrorKind::kIo);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("last iteration 20"), HasSubstr("server-0.bin is written"),
                                                 HasSubstr("/runs/a/00000010")));
}

TEST_F(Keeper, TheLastCheckpointThatCouldNotBeWrittenIsAnErrorAlsoAsOneOfSeveral) {
  for (const std::int64_t every : {0, 10}) {
    MemoryFiles files;
    CheckpointKeeper keeper(files, {.workers = 1, .servers = 1, .release = "0.1.0", .warn = [](const std::string&) {}});
    job::JobSpec agreed = spec();
    agreed.saving.every = every;
    ASSERT_TRUE(keeper.begin(agreed, table()).ok());
    keeper.on_saved({wire::Role::kWorker, Rank{0}}, 20, said({.name = "worker-0.bin", .failure = "No space left"}));
    keeper.on_saved({wire::Role::kServer, Rank{0}}, 20, said(write_server(files, 0, 20, {{0, kElements}}).value()));
    keeper.finish();
    EXPECT_THAT(keeper.last_one().message(), ::testing::AllOf(HasSubstr("last iteration 20"), HasSubstr("No space left")));
  }
}

TEST_F(Keeper, AFolderOfTheUsersOutlivesAFreshJob) {
  const auto content = std::make_shared<MemoryFiles::Content>();
  files_.files["/runs/a/20240131/raw/thesis.txt"] = content;
  auto keeper = make();
  job::JobSpec agreed = spec();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  save_all(keeper, 10);
  EXPECT_TRUE(files_.files.contains("/runs/a/20240131/raw/thesis.txt"));
}

TEST_F(Keeper, NonsenseFromAMemberIsNoPart) {
  auto keeper = make();
  job::JobSpec agreed = spec();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  for (const char* text :
       {"", "{}", "[]", "7", R"({"name":"../../etc/passwd","bytes":1,"crc32c":"00000000"})",
        R"({"name":"server-9.bin","bytes":1,"crc32c":"00000000"})", R"({"name":"server-0.bin","bytes":-1,"crc32c":"0"})"}) {
    keeper.on_saved({wire::Role::kServer, Rank{0}}, 10, text);
  }
  EXPECT_EQ(warnings_.size(), 7U);
  save_all(keeper, 10);
  EXPECT_EQ(loadable(files_), 10);
}

TEST_F(Keeper, AnEarlierJobsCheckpointsAreNotOverwrittenUnasked) {
  ASSERT_TRUE(save(files_, 10).ok());
  auto keeper = make();
  job::JobSpec agreed = spec();
  const Status status = keeper.begin(agreed, table());
  EXPECT_EQ(status.kind(), ErrorKind::kBadRequest);
  EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("--resume"), HasSubstr("/runs/a")));
  EXPECT_EQ(loadable(files_), 10);
}

TEST_F(Keeper, ResumesFromTheNewestGoodOneAndPutsDamagedOnesAside) {
  ASSERT_TRUE(save(files_, 10).ok());
  ASSERT_TRUE(save(files_, 20).ok());
  ASSERT_TRUE(write_server(files_, 0, 30, kTwoServers[0]).ok());  // was being written when the job died
  files_.files.at("/runs/a/00000020/server-1.bin")->bytes.back() ^= std::byte{4};
  job::JobSpec job = spec();
  job.saving.resume = true;
  job::JobSpec agreed = job;
  auto keeper = make();
  const Status status = keeper.begin(agreed, table());
  ASSERT_TRUE(status.ok()) << status.message();
  job = agreed;
  EXPECT_EQ(job.saving.iteration, 10);
  EXPECT_EQ(job.saving.from, "/runs/a/00000010");
  EXPECT_EQ(keeper.newest(), "/runs/a/00000010");
  EXPECT_THAT(warnings_, ::testing::ElementsAre(HasSubstr("00000030"), HasSubstr("/runs/a/00000020/server-1.bin")));
  const std::map<Iteration, bool> left = {{10, true}};
  EXPECT_EQ(list_checkpoints(files_, kDirectory).value(), left);
  EXPECT_TRUE(files_.files.contains("/runs/a/00000020.damaged/manifest.json"));
  save_all(keeper, 20);
  EXPECT_EQ(loadable(files_), 20);
}

TEST_F(Keeper, WithoutServersAWorkersPartIsAllOfTheModelAndWhatWasChosenIsKept) {
  job::JobSpec job = spec();
  give(job, "collective", "loop3-overlap");
  give(job, "algorithm", "ring");
  give(job, "link-cost", "9,9,9");  // what a member brings does not count
  job::JobSpec agreed = job;
  {
    auto keeper = make(/*servers=*/0);
    ASSERT_TRUE(keeper.begin(agreed, table()).ok());
    EXPECT_EQ(agreed.loop.link, std::nullopt);
    job = agreed;
    give(job, "link-cost", "0.0001,1e-08,1e-10");
    job.schedule.merge = 4096;
    keeper.record(job);
    save_all(keeper, 10);
    EXPECT_EQ(loadable(files_), 10);
  }
  job::JobSpec next = spec();
  next.saving.resume = true;
  give(next, "collective", "loop3-overlap");
  give(next, "algorithm", "ring");
  agreed = next;
  const Status status = make(0).begin(agreed, table());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(agreed.loop.link, (cost::LinkCost{0.0001, 1e-08, 1e-10}));
  EXPECT_EQ(agreed.schedule.merge, 4096);
  // Another choice of the user's is a new choice.
  give(next, "algorithm", "direct");
  agreed = next;
  ASSERT_TRUE(make(0).begin(agreed, table()).ok()) << "two workers add in the same order by any algorithm";
  EXPECT_EQ(agreed.loop.link, std::nullopt);
  EXPECT_EQ(agreed.schedule.merge, std::nullopt);
}

TEST_F(Keeper, TheWayOnNamesWhatACheckpointDoesNotTell) {
  auto trainers = make();
  job::JobSpec job = spec();
  ASSERT_TRUE(trainers.begin(job, table()).ok());
  save_all(trainers, 10);
  EXPECT_EQ(trainers.way_on(), "The last checkpoint is /runs/a/00000010; go on with --checkpoint /runs/a --resume");
  auto programs = make();
  give(job, "dataset", "(own)");
  job.saving.directory = "/runs/b";
  ASSERT_TRUE(programs.begin(job, table()).ok());
  EXPECT_THAT(programs.way_on(), HasSubstr("; the program goes on when it gives the same options, and resume"));
}

TEST_F(Keeper, WhatAMemberSaysAboutWhereToResumeIsOverruled) {
  job::JobSpec job = spec();
  job.saving.from = "/etc";
  job.saving.iteration = 5;
  job::JobSpec agreed = job;
  auto keeper = make();
  ASSERT_TRUE(keeper.begin(agreed, table()).ok());
  EXPECT_EQ(agreed.saving.from, "");
  EXPECT_EQ(agreed.saving.iteration, 0);
}

}  // namespace
}  // namespace paceline::checkpoint
