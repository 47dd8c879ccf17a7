// Servers and workers as threads, over healthy and faulty transports: the bits of the plain computation, and errors that name the
// culprit.
#include <array>
#include <atomic>
#include <functional>
#include <latch>

#include <gmock/gmock.h>

#include "paramserver_job.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"

namespace paceline::paramserver::testing {
namespace {

using session::testing::LeakCheck;
using ::testing::HasSubstr;

Backend faulty_backend(std::uint64_t seed) {
  auto network = std::make_shared<transport::InprocNetwork>();
  auto made = std::make_shared<std::uint64_t>(seed * 1000);
  return {"faulty",
          [network, made] {
            return std::unique_ptr<transport::Transport>(
                transport::make_faulty_transport(network->make_transport(), {.seed = ++*made,
                                                                             .delay = 0.01,
                                                                             .longest_delay = std::chrono::milliseconds(2),
                                                                             .reorder = 0.02,
                                                                             .cut_before = 0.001,
                                                                             .cut_inside = 0.001,
                                                                             .cut_after = 0.001,
                                                                             .corrupt_head = 0.001,
                                                                             .corrupt_payload = 0.002}));
          },
          "node"};
}

constexpr std::int64_t kElements = 600 + 20 + 3000 + 50 + 9000 + 500 + 1200 + 10;  // of the model of setting_of

JobSetting setting_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  JobSetting setting;
  setting.seed = seed;
  setting.table = table_of({{600, 20}, {3000, 50}, {9000, 500}, {1200, 10}});
  setting.options.workers = 1 + static_cast<std::int32_t>(random() % 4);
  setting.options.servers = 1 + static_cast<std::int32_t>(random() % 3);
  const auto& names = scheduling::schedule_names();
  setting.options.schedule = *scheduling::parse_schedule_name(names[seed % names.size()]);
  if (setting.options.schedule.cut.kind == scheduling::Cut::Kind::kSlices) setting.options.schedule.cut.elements = 700;
  if (setting.options.schedule.cut.kind == scheduling::Cut::Kind::kLarge) setting.options.schedule.cut.elements = 2000;
  if (random() % 2 == 0) setting.options.schedule.cut.merge = 600;
  setting.options.update.optimizer.kind = static_cast<tensor::OptimizerKind>(random() % 5);
  setting.options.update.optimizer.weight_decay = 0.01;
  if (random() % 3 == 0) setting.options.update.clip_norm = 1;
  if (random() % 3 == 0) setting.options.update.non_finite = job::NonFinitePolicy::kSkip;
  setting.unused_per_cent = random() % 2 == 0 ? 0 : 30;
  setting.threads = seed % 3 == 0 ? 3 : 1;
  return setting;
}

void expect_trained(Job& job) {
  for (auto& worker : job.workers) {
    EXPECT_TRUE(worker->failure.ok()) << worker->failure.message();
    EXPECT_TRUE(same_bits(worker->parameters, job.expected()));
  }
}

class ParameterServer : public LeakCheck {};

using SettingOf = std::function<JobSetting(std::uint64_t seed)>;
using BackendOf = std::function<Backend(std::uint64_t seed)>;

Backend inproc(std::uint64_t) { return transport::testing::inproc_backend(); }

// Jobs of the seeds 1 to `last`, each trained to the reference's bits.
void train_each(std::uint64_t last, const BackendOf& backend, const SettingOf& setting) {
  for (std::uint64_t seed = 1; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Job job(backend(seed), setting(seed));
    job.train();
    expect_trained(job);
  }
}

// Trains two workers for three iterations that use everything; of each worker what it pushed and pulled.
void expect_moved(JobSetting setting, std::int64_t pushed, std::int64_t pulled) {
  setting.options.workers = 2;
  setting.unused_per_cent = 0;
  setting.iterations = 3;
  Job job(transport::testing::inproc_backend(), setting);
  job.train();
  expect_trained(job);
  for (auto& worker : job.workers) {
    worker->account += worker->worker->take_account();
    EXPECT_EQ(worker->account.bytes_pushed, 3 * pushed);
    EXPECT_EQ(worker->account.bytes_pulled, 3 * pulled);
    for (const Duration part : {worker->account.push, worker->account.pull, worker->account.wait, worker->account.update})
      EXPECT_GE(part, Duration{});
  }
}

TEST_F(ParameterServer, GivesTheReferencesBitsOverInproc) { train_each(16, inproc, setting_of); }

TEST_F(ParameterServer, GivesTheReferencesBitsOverAFaultyNetwork) {
  train_each(8, faulty_backend, [](std::uint64_t seed) { return setting_of(100 + seed); });
}

TEST_F(ParameterServer, CountsWhatItPushedAndPulled) { expect_moved(setting_of(2), kElements * 4, kElements * 4); }

JobSetting batched_of(std::uint64_t seed) {
  JobSetting setting = setting_of(seed);
  setting.options.schedule = scheduling::ibatch_schedule();
  setting.options.schedule.push = scheduling::PushWhen::kInBatches;
  setting.options.schedule.cut = scheduling::slices_of(700);
  return setting;
}

TEST_F(ParameterServer, GivesTheReferencesBitsWithPushesInBatches) {
  const auto backend = [](std::uint64_t seed) { return seed % 2 == 0 ? faulty_backend(seed) : inproc(seed); };
  train_each(10, backend, [](std::uint64_t seed) {
    JobSetting setting = batched_of(seed);
    setting.iterations = 8;  // long enough for batches that were planned
    return setting;
  });
}

// Two iterations, before anything is planned: each of the four layers is a batch with units on both servers.
TEST_F(ParameterServer, ABatchTravelsAsOnePushOneRequestAndOneReplyPerServer) {
  JobSetting setting = batched_of(2);
  setting.options.workers = 3;
  setting.options.servers = 2;
  setting.options.update = {};
  setting.options.schedule.cut = scheduling::slices_of(10);
  setting.unused_per_cent = 0;
  setting.iterations = 2;
  Job job(transport::testing::inproc_backend(), setting);
  job.train();
  expect_trained(job);
  constexpr std::int64_t kMessages = 2 * 4 * 2;  // iterations, batches, servers
  const auto sent_by = [](Process& process) {
    std::map<wire::MessageKind, std::int64_t> sent;
    process.node.rank.on_loop([&] { sent = process.sent; });
    sent.erase(wire::MessageKind::kInitial);
    return sent;
  };
  for (auto& worker : job.workers) {
    EXPECT_EQ(sent_by(*worker), (std::map<wire::MessageKind, std::int64_t>{{wire::MessageKind::kPull, kMessages},
                                                                           {wire::MessageKind::kPushes, kMessages}}));
  }
  std::int64_t replies = 0, values = 0;
  for (auto& server : job.servers) {
    auto sent = sent_by(*server);
    replies += sent[wire::MessageKind::kValues];
    values += sent[wire::MessageKind::kValue];
  }
  EXPECT_EQ(replies, 3 * kMessages);
  EXPECT_EQ(values, 2 * static_cast<std::int64_t>(job.plan->units().units.size())) << "the initial values of two workers";
}

constexpr std::array kNarrowKinds = {job::WireKind::kBFloat16, job::WireKind::kFloat16};

// Every schedule meets every kind, with different numbers of workers and servers, cuts, and optimizers.
TEST_F(ParameterServer, GivesTheReferencesBitsWithNarrowCodecs) {
  for (const job::WireKind kind : kNarrowKinds) {
    SCOPED_TRACE(job::WireOptions{.kind = kind}.text());
    train_each(2 * scheduling::schedule_names().size(), inproc, [kind](std::uint64_t seed) {
      JobSetting setting = setting_of(200 + seed);
      setting.options.wire = {.kind = kind, .loss_scale = seed % 3 == 0 ? 64.0 : 1.0};
      return setting;
    });
  }
}

TEST_F(ParameterServer, GivesTheReferencesBitsWithNarrowCodecsOverAFaultyNetwork) {
  train_each(6, faulty_backend, [](std::uint64_t seed) {
    JobSetting setting = setting_of(300 + seed);
    setting.options.wire.kind = kNarrowKinds[seed % 2];
    return setting;
  });
}

// With one server a batch stands in one piece where it was rounded, with more it is gathered; odd sizes, so that units do not begin
// at whole floats there.
TEST_F(ParameterServer, GivesTheReferencesBitsWithNarrowPushesInBatches) {
  std::int64_t batches = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    JobSetting setting = batched_of(500 + seed);
    setting.table = table_of({{601, 21}, {2999, 51}, {9001, 499}, {1201, 11}});
    setting.options.servers = 1 + static_cast<std::int32_t>(seed % 3);
    setting.options.schedule.cut = scheduling::slices_of(701);
    setting.options.wire = {.kind = kNarrowKinds[seed % 2], .loss_scale = seed % 3 == 0 ? 64.0 : 1.0};
    setting.iterations = 8;  // long enough for batches that were planned
    Job job(seed % 4 < 2 ? faulty_backend(seed) : transport::testing::inproc_backend(), setting);
    job.train();
    expect_trained(job);
    if (HasFailure()) return;
    for (auto& worker : job.workers) worker->node.rank.on_loop([&] { batches += worker->sent[wire::MessageKind::kPushes]; });
  }
  EXPECT_GT(batches, 0);
}

TEST_F(ParameterServer, PushesAndPullsHalfTheBytesWithANarrowCodec) {
  JobSetting setting = setting_of(2);
  setting.options.wire.kind = job::WireKind::kBFloat16;
  expect_moved(setting, kElements * 2, kElements * 2);
}

TEST_F(ParameterServer, GivesTheReferencesBitsWithDropping) {
  constexpr std::array kShares = {0.5, 0.1, 0.01, 1e-9, 1.0};
  train_each(2 * scheduling::schedule_names().size(), inproc, [&](std::uint64_t seed) {
    JobSetting setting = setting_of(500 + seed);
    setting.options.wire = {.kind = job::WireKind::kDropping, .share = kShares[seed % kShares.size()]};
    setting.iterations = 6;
    return setting;
  });
}

TEST_F(ParameterServer, GivesTheReferencesBitsWithDeepGradientCompression) {
  train_each(2 * scheduling::schedule_names().size(), inproc, [](std::uint64_t seed) {
    JobSetting setting = setting_of(700 + seed);
    setting.options.update.optimizer = {};
    setting.options.update.clip_norm = 0;
    setting.options.wire = {.kind = job::WireKind::kDgc,
                            .share = std::array{0.01, 0.3, 1.0}[seed % 3],
                            .momentum = seed % 4 == 0 ? 0 : 0.9,
                            .nesterov = seed % 5 == 0,
                            .clip_norm = seed % 2 == 0 ? 0 : 0.5,
                            .warm_up = static_cast<std::int64_t>(seed % 4)};
    setting.iterations = 6;
    return setting;
  });
}

TEST_F(ParameterServer, GivesTheReferencesBitsWithDroppingOverAFaultyNetwork) {
  train_each(5, faulty_backend, [](std::uint64_t seed) {
    JobSetting setting = setting_of(600 + seed);
    setting.options.wire = {.kind = job::WireKind::kDropping, .share = 0.1};
    return setting;
  });
}

TEST_F(ParameterServer, PushesEightBytesForEachElementThatIsNotDropped) {
  JobSetting setting = setting_of(2);
  setting.options.wire = {.kind = job::WireKind::kDropping, .share = 0.1};
  setting.options.schedule = *scheduling::parse_schedule_name("layer-wise");
  expect_moved(setting, (60 + 2 + 300 + 5 + 900 + 50 + 120 + 1) * 8, kElements * 4);
}

// Every push adds 1 to a value that begins at 0, so that in the end each value is the number of pushes.
JobSetting ledger_of(std::uint64_t seed, sync::SyncKind kind) {
  JobSetting setting = setting_of(seed);
  setting.options.workers = 3;
  setting.options.sync = {.kind = kind, .staleness = 1, .lookahead = 4, .history = 2, .scale = sync::GradientScale::kFull};
  setting.options.update = {};
  setting.options.update.learning_rate.base = -1;
  setting.unused_per_cent = 0;
  setting.iterations = 8;
  setting.ledger = true;
  return setting;
}

constexpr std::array kUnevenKinds = {sync::SyncKind::kAsp, sync::SyncKind::kSsp, sync::SyncKind::kElasticBsp};

void expect_every_push_counted_once(Job& job) {
  const auto pushes = static_cast<float>(8 * 3);
  std::int64_t updates = 0, iterations = 0;
  for (auto& worker : job.workers) {
    EXPECT_TRUE(worker->failure.ok()) << worker->failure.message();
    EXPECT_TRUE(std::ranges::all_of(worker->parameters, [&](float value) { return value == pushes; })) << worker->parameters[0];
    iterations += worker->iterations;
  }
  EXPECT_EQ(iterations, 8 * 3) << "every mini-batch once";
  for (auto& server : job.servers) updates += server->server->core().counters().updates;
  EXPECT_LE(updates, static_cast<std::int64_t>(job.plan->units().units.size()) * 8 * 3);
}

TEST_F(ParameterServer, CountsEveryPushOnceInEveryUnevenModel) {
  for (const sync::SyncKind kind : kUnevenKinds) {
    for (std::uint64_t seed = 1; seed <= 7; ++seed) {
      SCOPED_TRACE(::testing::Message() << sync::to_text(kind) << ", seed " << seed);
      Job job(transport::testing::inproc_backend(), ledger_of(seed, kind));
      job.train();
      expect_every_push_counted_once(job);
      if (HasFailure()) return;
    }
  }
}

// 24 and less are numbers of every type, so nothing is rounded.
TEST_F(ParameterServer, CountsEveryPushOnceInEveryUnevenModelWithNarrowCodecs) {
  for (const sync::SyncKind kind : kUnevenKinds) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(::testing::Message() << sync::to_text(kind) << ", seed " << seed);
      JobSetting setting = ledger_of(400 + seed, kind);
      setting.options.wire.kind = kNarrowKinds[seed % 2];
      Job job(transport::testing::inproc_backend(), setting);
      job.train();
      expect_every_push_counted_once(job);
      if (HasFailure()) return;
    }
  }
}

// Connections break, frames are duplicated, damaged and sent again.
TEST_F(ParameterServer, CountsEveryPushOnceInEveryUnevenModelOverAFaultyNetwork) {
  for (const sync::SyncKind kind : kUnevenKinds) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(::testing::Message() << sync::to_text(kind) << ", seed " << seed);
      Job job(faulty_backend(seed), ledger_of(200 + seed, kind));
      job.train();
      expect_every_push_counted_once(job);
      if (HasFailure()) return;
    }
  }
}

// Worker 2 vanishes with a push unanswered: what it had acknowledged is in the final values, and at most that push besides.
TEST_F(ParameterServer, OfALostWorkersPushesThoseThatWereAnsweredStayAndAtMostOneMore) {
  for (const sync::SyncKind kind : kUnevenKinds) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(::testing::Message() << sync::to_text(kind) << ", seed " << seed);
      JobSetting setting = ledger_of(300 + seed, kind);
      Job job(transport::testing::inproc_backend(), setting);
      std::atomic<std::int64_t> acknowledged = 0;
      std::latch third(1);
      job.train(
          [&](std::int32_t worker, Iteration iteration) {
            if (worker == 2) acknowledged = iteration - 1;  // it has got the values of that one
            if (worker == 2 && iteration == 3) third.count_down();
            // Else the others might take all mini-batches before it has its third: with asp nobody waits.
            if (worker != 2 && iteration == 3) third.wait();
          },
          [&](std::int32_t worker, Iteration iteration) { return worker == 2 && iteration == 3; });
      EXPECT_EQ(acknowledged, 2);
      std::int64_t others = 0;
      for (std::size_t worker = 0; worker < 2; ++worker) {
        EXPECT_TRUE(job.workers[worker]->failure.ok()) << job.workers[worker]->failure.message();
        others += job.workers[worker]->iterations;
      }
      const auto& values = job.workers[0]->parameters;
      EXPECT_TRUE(same_bits(values, job.workers[1]->parameters));
      for (const float value : values) {
        ASSERT_GE(value, static_cast<float>(others + acknowledged));
        ASSERT_LE(value, static_cast<float>(others + acknowledged + 1));
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(ParameterServer, RefusesMessagesOfPaceThatDoNotFitAndNamesTheSender) {
  const Rank worker{1}, server{0};
  const auto at_server = [&](sync::SyncKind kind, Rank from, const wire::MessageHead& head) {
    JobSetting setting = ledger_of(1, kind);
    setting.options.servers = 1;
    Job job(transport::testing::inproc_backend(), setting);
    std::string said;
    job.servers[0]->node.rank.on_loop([&] {
      job.servers[0]->server->on_message(from, head, {});
      if (job.servers[0]->reported.size() == 1) said = job.servers[0]->reported[0].message();
    });
    return said;
  };
  const auto asp = sync::SyncKind::kAsp, elastic = sync::SyncKind::kElasticBsp;
  EXPECT_THAT(at_server(asp, worker, {.kind = wire::MessageKind::kDone, .iteration = 5}),
              HasSubstr("worker 1 says that iteration 5 was its last one"));
  EXPECT_THAT(at_server(asp, Rank{1}, {.kind = wire::MessageKind::kBarrier}), HasSubstr("server 1 sent server 0 a message"));
  EXPECT_THAT(at_server(asp, worker, {.kind = wire::MessageKind::kMiniBatch}), HasSubstr("worker 1 sent server 0 a message"));
  EXPECT_THAT(at_server(asp, server, {.kind = wire::MessageKind::kBarrier, .unit = 1, .iteration = 2}),
              HasSubstr("asp predicts none"));
  EXPECT_THAT(at_server(elastic, server, {.kind = wire::MessageKind::kBarrier, .unit = 1, .iteration = 99}),
              HasSubstr("worker 1 was told of a barrier after iteration 99; legal are 2 to 5"));
  const auto at_worker = [&](sync::SyncKind kind, std::uint32_t count, Iteration number) {
    JobSetting setting = ledger_of(1, kind);
    Job job(transport::testing::inproc_backend(), setting);
    std::string said;
    job.workers[0]->node.rank.on_loop([&] {
      job.workers[0]->end().on_message(server, {.kind = wire::MessageKind::kMiniBatch, .unit = count, .iteration = number}, {});
      if (job.workers[0]->reported.size() == 1) said = job.workers[0]->reported[0].message();
    });
    return said;
  };
  EXPECT_EQ(at_worker(asp, 1, 7), "");
  EXPECT_THAT(at_worker(asp, 2, 7), HasSubstr("worker 0 was handed out mini-batch 7 for its 2. iteration; so far it has 0"));
  EXPECT_THAT(at_worker(asp, 1, 0), HasSubstr("mini-batch 0"));
  EXPECT_THAT(at_worker(sync::SyncKind::kBsp, 1, 1), HasSubstr("mini-batch 1"));
}

TEST_F(ParameterServer, EveryWaitEndsWithTheReasonOfTheCancellation) {
  JobSetting setting = setting_of(2);
  setting.options.workers = 3;
  setting.iterations = 50;
  Job job(transport::testing::inproc_backend(), setting);
  // Worker 1 stops in iteration 3; the others wait for it until somebody tells them.
  job.train([&](std::int32_t worker, Iteration iteration) {
    if (worker != 1 || iteration != 3) return;
    for (auto& process : job.workers) process->worker->cancel(error(ErrorKind::kPeerLost, "worker 1 was lost"));
  });
  for (auto& worker : job.workers) {
    EXPECT_EQ(worker->failure.message(), "worker 1 was lost");
    EXPECT_EQ(worker->worker->wait_layer(Layer{0}, 4).message(), "worker 1 was lost");
    EXPECT_EQ(worker->worker->wait_gradients_free().message(), "worker 1 was lost");
    EXPECT_EQ(worker->worker->gradient_ready(0).message(), "worker 1 was lost");
  }
}

TEST_F(ParameterServer, AStalledJobEndsWithServerLayerIterationAndTheTimeWaited) {
  JobSetting setting = setting_of(1);
  setting.options.workers = 2;
  setting.options.servers = 1;
  setting.stall_deadline = std::chrono::milliseconds(300);
  Job job(transport::testing::inproc_backend(), setting);
  job.train([&](std::int32_t worker, Iteration iteration) {
    if (worker == 1 && iteration == 2) job.workers[1]->worker->cancel(error(ErrorKind::kCancelled, "gone"));
  });
  const Status& failure = job.workers[0]->failure;
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.kind(), ErrorKind::kDeadline);
  for (const char* part : {"worker 0 waited 3", " ms for server 0 to send the value of layer 0 \"layer0\" after iteration 2",
                           "--stall-deadline is 300"}) {
    EXPECT_THAT(failure.message(), HasSubstr(part));
  }
}

TEST_F(ParameterServer, AServerThatGetsNonsenseFailsTheJobOnceAndNamesTheSender) {
  JobSetting setting = setting_of(1);
  setting.options.workers = 2;
  setting.options.servers = 1;
  Job job(transport::testing::inproc_backend(), setting);
  Process& server = *job.servers[0];
  server.node.rank.on_loop([&] {
    const Rank worker{1};
    const auto refused = [&](wire::MessageHead head) { EXPECT_FALSE(server.server->on_message_begin(worker, head).ok()); };
    refused({.kind = wire::MessageKind::kSquareSum, .payload_bytes = tensor::kSquareSumBytes});
    refused({.kind = wire::MessageKind::kValue, .payload_bytes = 2400});
    refused({.kind = wire::MessageKind::kPush, .flags = 1, .iteration = 1, .payload_bytes = 2400});
    refused({.kind = wire::MessageKind::kPush, .unit = 99, .iteration = 1, .payload_bytes = 2400});
    refused({.kind = wire::MessageKind::kPush, .iteration = 1, .payload_bytes = 7});
    const auto last = static_cast<std::uint32_t>(job.plan->units().units.size() - 1);
    const auto bytes = static_cast<std::uint64_t>(job.plan->units().elements) * sizeof(float);
    refused({.kind = wire::MessageKind::kPushes, .detail = last, .iteration = 1, .payload_bytes = bytes - 4});
    refused({.kind = wire::MessageKind::kPushes, .detail = last + 1, .iteration = 1, .payload_bytes = bytes});
    refused({.kind = wire::MessageKind::kPushes, .unit = last, .detail = 0, .iteration = 1, .payload_bytes = bytes});
    refused({.kind = wire::MessageKind::kPushes, .flags = 1, .detail = last, .iteration = 1, .payload_bytes = bytes});
    refused({.kind = wire::MessageKind::kPushes, .detail = last, .iteration = 2, .payload_bytes = bytes});
    EXPECT_TRUE(server.reported.empty());
    server.server->on_message(worker, {.kind = wire::MessageKind::kPull, .iteration = 9}, {});
    server.server->on_message(worker, {.kind = wire::MessageKind::kPull, .iteration = 9}, {});
    EXPECT_EQ(server.reported.size(), 1U);
    EXPECT_THAT(server.reported.at(0).message(), HasSubstr("worker 1 asked"));
  });
}

}  // namespace
}  // namespace paceline::paramserver::testing
