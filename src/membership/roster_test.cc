#include "membership/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Role;

constexpr wire::Roles kBoth = Role::kWorker | Role::kServer;

constexpr session::PeerId kWorker0 = 10, kWorker1 = 11, kServer0 = 20, kServer1 = 21;

wire::Join worker(std::int32_t wanted = -1, std::string optimizer = "sgd", std::int64_t width = 4) {
  wire::Join join{.wanted_rank = wanted, .release = "1.0"};
  join.table = {{{"fc.weight", "float32", {2, width}, Layer{0}, 0}}, {"fc"}};
  join.settings = {{"model", "mlp"}, {"optimizer", std::move(optimizer)}};
  return join;
}

wire::Join server(std::string address) { return {.address = std::move(address), .release = "1.0"}; }

Roster two_and_two() { return Roster({.workers = 2, .servers = 2, .job = 7, .release = "1.0"}); }

template <typename T>
std::vector<session::PeerId> receivers(const Actions& actions) {
  std::vector<session::PeerId> to;
  for (const Action& action : actions) {
    if (const T* sent = std::get_if<T>(&action)) to.push_back(sent->to);
  }
  return to;
}

// Brings everybody in; returns the actions of the last ready.
Actions start(Roster& roster) {
  EXPECT_TRUE(roster.on_join(kWorker0, Role::kWorker, "a:1", worker()).empty());
  EXPECT_TRUE(roster.on_join(kServer0, Role::kServer, "a:2", server("s:0")).empty());
  EXPECT_TRUE(roster.on_join(kServer1, Role::kServer, "a:3", server("s:1")).empty());
  EXPECT_THAT(receivers<SendWelcome>(roster.on_join(kWorker1, Role::kWorker, "a:4", worker())), ElementsAre(kServer0, kServer1));
  EXPECT_TRUE(roster.on_ready(kServer0).empty());
  return roster.on_ready(kServer1);
}

std::string stop_reason(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* stop = std::get_if<SendStop>(&action)) return stop->stop.reason;
  }
  return "nobody was stopped";
}

TEST(Roster, KnowsTheStepOfTheSlowestWorkerWhenAllHaveMeasured) {
  const auto slowest = [](const std::vector<wire::LayerSeconds>& measured) {
    Roster roster({.workers = static_cast<std::int32_t>(measured.size()), .servers = 1, .job = 7, .release = "1.0"});
    roster.on_join(kServer0, Role::kServer, "a:9", server("s:0"));
    for (std::size_t i = 0; i < measured.size(); ++i) {
      wire::Join join = worker();
      join.seconds = measured[i];
      roster.on_join(kWorker0 + static_cast<session::PeerId>(i), Role::kWorker, "a:1", std::move(join));
    }
    return roster.slowest();
  };
  const wire::LayerSeconds fast{.forward = {1}, .backward = {2}}, slow{.forward = {0.5}, .backward = {3}};
  EXPECT_EQ(slowest({fast, slow}), slow);
  EXPECT_EQ(slowest({slow, fast}), slow);
  EXPECT_TRUE(slowest({slow, {}}).empty()) << "nobody knows what the other takes";
}

TEST(Roster, WelcomesWorkersOnlyWhenEveryServerIsReady) {
  Roster roster = two_and_two();
  const Actions actions = start(roster);
  ASSERT_THAT(receivers<SendWelcome>(actions), ElementsAre(kWorker0, kWorker1));
  const wire::Welcome& welcome = std::get<SendWelcome>(actions[1]).welcome;
  EXPECT_EQ(welcome.rank, 1);
  EXPECT_EQ(welcome.job, 7u);
  EXPECT_THAT(welcome.servers, ElementsAre("s:0", "s:1"));
  EXPECT_EQ(roster.phase(), Phase::kRunning);
}

// Two processes that are worker and server, one that is only a worker and one that is only a server.
TEST(Roster, AMemberThatIsBothHasOneRankIsWelcomedTwiceAndReportsForEach) {
  constexpr session::PeerId kBoth0 = 30, kBoth1 = 31, kAlone = 32, kShard = 33;
  Roster roster({.workers = 3, .servers = 3, .job = 7, .release = "1.0"});
  const auto both = [](std::string address, std::int32_t wanted = -1) {
    wire::Join join = worker(wanted);
    join.address = std::move(address);
    return join;
  };
  EXPECT_TRUE(roster.on_join(kBoth0, kBoth, "a:1", both("s:0")).empty());
  EXPECT_TRUE(roster.on_join(kShard, Role::kServer, "a:2", server("s:1")).empty());
  EXPECT_THAT(stop_reason(roster.on_join(40, kBoth, "a:9", both("s:9", 1))),
              HasSubstr("wants rank 1, which server 1 at a:2 already has"));
  EXPECT_TRUE(roster.on_join(kBoth1, kBoth, "a:3", both("s:2")).empty());
  EXPECT_EQ(*roster.name_of(kBoth1), (wire::PeerName{kBoth, Rank{2}})) << "free in both roles";
  EXPECT_EQ(roster.seats().missing(), "2 of 3 workers and 3 of 3 servers have joined");
  EXPECT_THAT(stop_reason(roster.on_join(41, kBoth, "a:9", both("s:9"))), HasSubstr("the job has its 3 servers"));
  const Actions prepare = roster.on_join(kAlone, Role::kWorker, "a:4", worker());
  EXPECT_THAT(receivers<SendWelcome>(prepare), ElementsAre(kBoth0, kBoth1, kShard));
  const wire::Welcome& welcome = std::get<SendWelcome>(prepare[1]).welcome;
  EXPECT_EQ(welcome.rank, 2);
  EXPECT_THAT(welcome.servers, ElementsAre("s:0", "s:1", "s:2"));
  EXPECT_EQ(welcome.table, worker().table);
  roster.on_ready(kBoth0);
  roster.on_ready(kShard);
  EXPECT_THAT(receivers<SendWelcome>(roster.on_ready(kBoth1)), ElementsAre(kBoth0, kBoth1, kAlone));
  EXPECT_EQ(roster.both(), 2);

  EXPECT_THAT(receivers<SendPark>(roster.on_interrupt("enough")), ElementsAre(kBoth0, kBoth1, kAlone));
  roster.on_parked(kBoth0, 5);
  roster.on_parked(kBoth1, 6);
  EXPECT_THAT(receivers<SendFinishAt>(roster.on_parked(kAlone, 5)), ElementsAre(kBoth0, kBoth1, kShard, kAlone));

  roster.on_report(kBoth0, Role::kWorker, "w0");
  roster.on_report(kAlone, Role::kWorker, "w1");
  EXPECT_TRUE(roster.on_report(kShard, Role::kWorker, "x").empty()) << "a server has no worker's report";
  EXPECT_THAT(receivers<SendStop>(roster.on_report(kBoth1, Role::kWorker, "w2")), ElementsAre(kBoth0, kBoth1, kAlone, kShard));
  EXPECT_TRUE(roster.on_report(kBoth0, Role::kServer, "s0").empty());
  EXPECT_TRUE(roster.on_report(kBoth1, Role::kServer, "s2").empty());
  EXPECT_EQ(std::get<Ended>(roster.on_report(kShard, Role::kServer, "s1")[0]).stop.reason, "enough");
  EXPECT_EQ(roster.worker_reports().at(Rank{2}), "w2");
  EXPECT_EQ(roster.server_reports().at(Rank{2}), "s2");
}

TEST(Roster, WhoSaysAThingTwiceOrOfAnotherSeatIsNotTwoMembers) {
  Roster roster = two_and_two();
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker());
  roster.on_join(kServer0, Role::kServer, "a:2", server("s:0"));
  roster.on_join(kServer1, Role::kServer, "a:3", server("s:1"));
  roster.on_join(kWorker1, Role::kWorker, "a:4", worker());
  roster.on_ready(kServer0);
  EXPECT_TRUE(roster.on_ready(kServer0).empty());
  EXPECT_EQ(roster.phase(), Phase::kPreparing) << "server 1 does not know the job";
  roster.on_ready(kServer1);
  roster.on_interrupt("enough");
  roster.on_parked(kWorker0, 5);
  EXPECT_TRUE(roster.on_parked(kServer1, 5).empty()) << "worker 1 still trains";
  EXPECT_FALSE(roster.on_parked(kWorker1, 6).empty());
}

TEST(Roster, NoRankThatIsFreeInBothRolesIsSaidSo) {
  Roster roster = two_and_two();
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker(0));
  wire::Join second = server("s:1");
  second.wanted_rank = 1;
  roster.on_join(kServer1, Role::kServer, "a:2", second);
  EXPECT_THAT(stop_reason(roster.on_join(40, kBoth, "a:3", worker())), HasSubstr("needs a rank that is free in both roles"));
  EXPECT_THAT(stop_reason(roster.on_join(41, kBoth, "a:3", worker(2))), HasSubstr("2 workers and 2 servers: ranks 0..1 are legal"));
}

TEST(Roster, TellsEverybodyTheFirstDifferenceBetweenSettings) {
  Roster roster = two_and_two();
  roster.on_join(kServer0, Role::kServer, "a:2", server("s:0"));
  roster.on_join(kServer1, Role::kServer, "a:3", server("s:1"));
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker());
  const Actions actions = roster.on_join(kWorker1, Role::kWorker, "a:4", worker(-1, "adam"));
  EXPECT_THAT(receivers<SendStop>(actions), ElementsAre(kWorker0, kWorker1, kServer0, kServer1));
  EXPECT_THAT(stop_reason(actions), HasSubstr("workers 0 (a:1) and 1 (a:4) disagree on --optimizer: sgd against adam"));
  EXPECT_EQ(std::get<Ended>(actions.back()).stop.error, ErrorKind::kBadRequest);
}

TEST(Roster, TellsTheFirstTensorThatDiffers) {
  Roster roster = two_and_two();
  roster.on_join(kServer0, Role::kServer, "a:2", server("s:0"));
  roster.on_join(kServer1, Role::kServer, "a:3", server("s:1"));
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker());
  const Actions actions = roster.on_join(kWorker1, Role::kWorker, "a:4", worker(-1, "sgd", 5));
  EXPECT_THAT(stop_reason(actions), HasSubstr("tensor 0: \"fc.weight\" float32 [2, 4]"));
}

TEST(Roster, RefusesOneWhoDoesNotFitAndLetsTheOthersGoOn) {
  Roster roster = two_and_two();
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker(1));
  EXPECT_THAT(stop_reason(roster.on_join(30, Role::kWorker, "b:1", worker(1))),
              HasSubstr("rank 1, which worker 1 at a:1 already has"));
  EXPECT_THAT(stop_reason(roster.on_join(31, Role::kWorker, "b:2", worker(2))), HasSubstr("ranks 0..1 are legal"));
  wire::Join older = worker();
  older.release = "0.9";
  EXPECT_THAT(stop_reason(roster.on_join(32, Role::kWorker, "b:3", older)), HasSubstr("runs release 0.9, the coordinator 1.0"));
  wire::Join other_world = worker();
  other_world.world_workers = 8;
  EXPECT_THAT(stop_reason(roster.on_join(33, Role::kWorker, "b:4", other_world)), HasSubstr("expects 8 workers"));
  roster.on_join(kWorker1, Role::kWorker, "a:4", worker());
  EXPECT_EQ(roster.name_of(kWorker1)->rank, Rank{0});  // the place that was left
  EXPECT_THAT(stop_reason(roster.on_join(34, Role::kWorker, "b:5", worker())), HasSubstr("one too many"));
  EXPECT_EQ(roster.phase(), Phase::kGathering);
}

TEST(Roster, FreesThePlaceOfOneWhoIsLostWhileGathering) {
  Roster roster = two_and_two();
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker(0));
  EXPECT_TRUE(roster.on_peer_lost(kWorker0, error(ErrorKind::kPeerLost, "gone")).empty());
  EXPECT_TRUE(roster.on_join(40, Role::kWorker, "a:9", worker(0)).empty());
  EXPECT_EQ(roster.name_of(40)->rank, Rank{0});
}

TEST(Roster, EndsWhenWorkersAndThenServersHaveReported) {
  Roster roster = two_and_two();
  start(roster);
  const Actions told = roster.on_report(kWorker1, Role::kWorker, "one", 7);
  ASSERT_THAT(receivers<SendWorkerDone>(told), ElementsAre(kWorker0)) << "who must not go on alone";
  EXPECT_EQ(std::get<SendWorkerDone>(told[0]).worker, Rank{1});
  EXPECT_EQ(std::get<SendWorkerDone>(told[0]).last, 7);
  const Actions stops = roster.on_report(kWorker0, Role::kWorker, "zero");
  EXPECT_THAT(receivers<SendStop>(stops), ElementsAre(kWorker0, kWorker1, kServer0, kServer1));
  EXPECT_FALSE(roster.failed()) << "the last checkpoint is being saved";
  EXPECT_EQ(roster.worker_reports().at(Rank{1}), "one");
  EXPECT_TRUE(roster.on_report(kServer0, Role::kServer, "s").empty());
  const Actions ended = roster.on_report(kServer1, Role::kServer, "s");
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(std::get<Ended>(ended[0]).stop.kind, wire::StopKind::kDone);
}

TEST(Roster, EndsForEverybodyWithTheFirstReason) {
  Roster roster = two_and_two();
  start(roster);
  const Actions actions = roster.on_peer_lost(kWorker1, error(ErrorKind::kPeerLost, "worker 1 (a:4) sent nothing for 10.0 s"));
  EXPECT_THAT(receivers<SendStop>(actions), ElementsAre(kWorker0, kServer0, kServer1));
  EXPECT_TRUE(std::holds_alternative<Ended>(actions.back()));
  EXPECT_TRUE(roster.on_failed(kServer0, {wire::StopKind::kFailed, ErrorKind::kIo, "later"}).empty());
  EXPECT_TRUE(roster.failed());
}

TEST(Roster, AnInterruptLetsAllFinishTheIterationOfTheForemost) {
  Roster roster = two_and_two();
  start(roster);
  EXPECT_THAT(receivers<SendPark>(roster.on_interrupt("interrupted")), ElementsAre(kWorker0, kWorker1));
  EXPECT_TRUE(roster.on_parked(kWorker0, 5).empty());
  const Actions actions = roster.on_parked(kWorker1, 6);
  EXPECT_THAT(receivers<SendFinishAt>(actions), ElementsAre(kServer0, kServer1, kWorker0, kWorker1));
  EXPECT_EQ(std::get<SendFinishAt>(actions[0]).iteration, 6);
  roster.on_report(kWorker0, Role::kWorker, "zero");
  roster.on_report(kWorker1, Role::kWorker, "one");
  roster.on_report(kServer0, Role::kServer, "s");
  EXPECT_EQ(std::get<Ended>(roster.on_report(kServer1, Role::kServer, "s")[0]).stop.kind, wire::StopKind::kInterrupted);
}

TEST(Roster, AWorkerThatHasReportedHoldsNobodyUpWhoParks) {
  for (const bool report_first : {true, false}) {
    Roster roster = two_and_two();
    start(roster);
    if (report_first) roster.on_report(kWorker0, Role::kWorker, "zero");
    roster.on_interrupt("interrupted");
    Actions actions = roster.on_parked(kWorker1, 6);
    if (!report_first) {
      EXPECT_TRUE(actions.empty());
      actions = roster.on_report(kWorker0, Role::kWorker, "zero");
    }
    ASSERT_THAT(receivers<SendFinishAt>(actions), ElementsAre(kServer0, kServer1, kWorker0, kWorker1)) << report_first;
    EXPECT_EQ(std::get<SendFinishAt>(actions[0]).iteration, 6);
    EXPECT_TRUE(roster.on_parked(kWorker0, 30).empty()) << "told once only";
    EXPECT_EQ(receivers<SendStop>(roster.on_report(kWorker1, Role::kWorker, "one")).size(), 4u);
  }
}

// Both programs end after iteration 5. Before they have said so somebody interrupts them: they stand before an iteration that never
// comes.
TEST(Roster, ServersAreToldWhereProgramsEndedThatEndBeforeTheIterationOfTheForemost) {
  for (const bool parked : {true, false}) {
    Roster roster = two_and_two();
    start(roster);
    roster.on_interrupt("interrupted");
    if (parked) {
      roster.on_parked(kWorker0, 6);
      EXPECT_EQ(std::get<SendFinishAt>(roster.on_parked(kWorker1, 6)[0]).iteration, 6);
    }
    roster.on_report(kWorker0, Role::kWorker, "zero", 5);
    const Actions actions = roster.on_report(kWorker1, Role::kWorker, "one", 5);
    EXPECT_THAT(receivers<SendFinishAt>(actions), ElementsAre(kServer0, kServer1, kWorker0, kWorker1)) << parked;
    EXPECT_EQ(std::get<SendFinishAt>(actions[0]).iteration, 5);
    EXPECT_TRUE(std::holds_alternative<SendStop>(actions.back())) << "which comes behind it";
  }
}

TEST(Roster, ASecondInterruptEndsAtOnce) {
  Roster roster = two_and_two();
  start(roster);
  roster.on_interrupt("interrupted");
  EXPECT_EQ(receivers<SendStop>(roster.on_interrupt("interrupted twice")).size(), 4u);
}

TEST(Roster, ASecondInterruptWaitsForNoServerThatStillWritesTheLastCheckpoint) {
  Roster roster = two_and_two();
  start(roster);
  roster.on_report(kWorker0, Role::kWorker, "0");
  EXPECT_EQ(receivers<SendStop>(roster.on_report(kWorker1, Role::kWorker, "1")).size(), 4u);
  EXPECT_TRUE(roster.on_interrupt("once").empty()) << "the job is over, and its last checkpoint worth waiting for";
  const auto actions = roster.on_interrupt("twice");
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<Ended>(actions[0]).stop.kind, wire::StopKind::kInterrupted);
}

TEST(Roster, AWorkerWhoseProcessIsAskedToEndParksAllAndLeavesTheUserTwoInterrupts) {
  Roster roster = two_and_two();
  EXPECT_TRUE(roster.on_end_asked(kWorker0).empty()) << "nobody trains yet";
  start(roster);
  EXPECT_TRUE(roster.on_end_asked(99).empty()) << "no member";
  EXPECT_THAT(receivers<SendPark>(roster.on_end_asked(kWorker1)), ElementsAre(kWorker0, kWorker1));
  EXPECT_TRUE(roster.on_end_asked(kWorker0).empty()) << "a launcher asks all its processes";
  EXPECT_TRUE(roster.on_interrupt("interrupted").empty()) << "and the coordinator's: no second time";
  EXPECT_THAT(stop_reason(roster.on_interrupt("interrupted twice")), HasSubstr("interrupted twice"));

  Roster asked_only = two_and_two();
  start(asked_only);
  asked_only.on_end_asked(kWorker1);
  asked_only.on_parked(kWorker0, 3);
  EXPECT_EQ(receivers<SendFinishAt>(asked_only.on_parked(kWorker1, 4)).size(), 4u);
  asked_only.on_report(kWorker0, Role::kWorker, "zero");
  EXPECT_THAT(stop_reason(asked_only.on_report(kWorker1, Role::kWorker, "one")),
              HasSubstr("worker 1 was asked to end by a signal"));
}

TEST(Roster, SaysWhoIsMissingWhenTheTimeToJoinIsOver) {
  Roster roster = two_and_two();
  roster.on_join(kWorker0, Role::kWorker, "a:1", worker());
  EXPECT_THAT(stop_reason(roster.on_gathering_deadline(std::chrono::seconds(60))),
              HasSubstr("only 1 of 2 workers and 0 of 2 servers have joined after 60.0 s"));
}

TEST(Roster, NamesTheRanksThatNobodyHas) {
  Roster roster = two_and_two();
  roster.on_join(kWorker1, Role::kWorker, "a:1", worker(1));
  EXPECT_THAT(stop_reason(roster.on_gathering_deadline(std::chrono::seconds(60))),
              HasSubstr("without worker 0, server 0, server 1; start"));
  Roster large({.workers = 3, .servers = 20, .job = 7});
  EXPECT_EQ(large.seats().absent(), "worker 0, worker 1, worker 2, server 0, server 1, server 2, server 3, server 4 and 15 more");
}

}  // namespace
}  // namespace paceline::membership
