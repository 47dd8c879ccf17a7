// Whole jobs - coordinator, servers, workers - as threads of one process over every transport, healthy and faulty: the bits are
// those of plain loops, and everybody hears the same reason when a job ends early.
#include <future>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "collectives/plan/plan_player.h"
#include "paramserver/core/testing.h"
#include "replay/reference.h"
#include "replay/worker.h"
#include "runtime/coordinator.h"
#include "runtime/server_process.h"
#include "runtime/worker_process.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::runtime {
namespace {

using paramserver::testing::gradient_of;
using ::testing::HasSubstr;

enum class Backend { kInproc, kTcp, kFaultyInproc, kFaultyTcp };

bool is_faulty(Backend backend) { return backend == Backend::kFaultyInproc || backend == Backend::kFaultyTcp; }

std::string name_of(const ::testing::TestParamInfo<Backend>& info) {
  constexpr std::array<const char*, 4> kNames = {"Inproc", "Tcp", "FaultyInproc", "FaultyTcp"};
  return kNames[static_cast<std::size_t>(info.param)];
}

struct Job {
  std::int32_t workers = 2, servers = 2;
  std::int32_t both = 0;  // of them, processes of the lowest ranks that are worker and server
  JobSettings settings;
  Iteration iterations = 12;
};

constexpr std::uint64_t kSeed = 5;

wire::TensorTable table() { return paramserver::testing::table_of({{3000, 7}, {40'000}, {1, 500}}); }

// The threads of one job. Each rank has a loop of its own.
class Cluster {
 public:
  Cluster(Backend backend, const Job& job) : backend_(backend), job_(job) {
    coordinator_transport_ = make_transport();
    CoordinatorOptions options;
    options.workers = job.workers;
    options.servers = job.servers;
    options.silence_deadline = kDeadline;
    options.release = "test";
    options.job = 77;
    CoordinatorCallbacks callbacks;
    callbacks.on_ended = [this](const wire::Stop& stop, const std::optional<Json>& report) {
      verdict = stop;
      final_report = report;
      coordinator_transport_->loop().stop();
    };
    callbacks.on_progress = [this](const Json& told) { progress.push_back(told); };
    coordinator_ = std::make_unique<Coordinator>(*coordinator_transport_, options, callbacks);
    const auto address = coordinator_->start();
    EXPECT_TRUE(address.ok()) << address.status().message();
    address_ = *address;
    threads_.emplace_back([this] { coordinator_transport_->loop().run(); });
    for (std::int32_t rank = job.both; rank < job.servers; ++rank) add_server(rank);
  }

  ~Cluster() { join(); }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  MemberOptions member(std::uint64_t seed) const {
    MemberOptions options;
    options.coordinator = address_;
    options.listen = {address_.host, 0};
    options.silence_deadline = kDeadline;
    options.release = "test";
    options.seed = seed;
    return options;
  }

  // One worker's life: joins, pushes made-up gradients, and returns how the job ended for it.
  Status work(std::int32_t rank, std::vector<float>& parameters, const JobSettings& settings,
              const std::function<void(WorkerProcess&, Iteration)>& at_iteration = {}) {
    const wire::TensorTable tensors = table();
    const std::int64_t elements = tensors.elements();
    parameters = paramserver::testing::initial_values(kSeed + static_cast<std::uint64_t>(rank), elements);  // only rank 0's count
    std::vector<float> gradients(parameters.size());
    MemberOptions options = member(1000 + static_cast<std::uint64_t>(rank));
    options.wanted_rank = rank;
    if (rank < job_.both) options.role = session::Role::kBoth;
    options.table = tensors;
    options.settings = to_settings(settings);
    const auto process = WorkerProcess::join([this] { return Result<std::unique_ptr<transport::Transport>>(make_transport()); },
                                             options, parameters, gradients);
    if (!process.ok()) return process.status();
    WorkerProcess& worker = **process;
    WorkerReport report;
    report.rank = rank;
    for (Iteration iteration = 1; iteration <= job_.iterations; ++iteration) {
      const Status status = train(worker, iteration, tensors, gradients);
      if (!status.ok()) return worker.fail(status);
      if (at_iteration) at_iteration(worker, iteration);
      const auto last = worker.end_iteration(iteration);
      if (!last.ok()) return worker.fail(last.status());
      report.iterations = iteration;
      if (*last) break;
    }
    if (const Status status = worker.exchange().wait_all(report.iterations); !status.ok()) return worker.fail(status);
    Hash128 hash;
    hash.update(std::as_bytes(std::span(parameters)));
    report.parameters_hash = hash.hex();
    return worker.finish(report);
  }

  // One replaying worker's life; it checks every value by itself.
  Status replay(std::int32_t rank, const replay::LayerTable& table, const JobSettings& settings) {
    replay::Arena arena(table, static_cast<std::uint64_t>(settings.seed));
    MemberOptions options = member(1000 + static_cast<std::uint64_t>(rank));
    options.wanted_rank = rank;
    options.table = replay::tensors_of(table);
    options.settings = to_settings(settings);
    const auto process = WorkerProcess::join([this] { return Result<std::unique_ptr<transport::Transport>>(make_transport()); },
                                             options, arena.parameters, arena.gradients);
    return process.ok() ? replay::run_worker(table, arena, **process) : process.status();
  }

  void interrupt() {
    coordinator_transport_->loop().post([this] { coordinator_->interrupt("interrupted by the test"); });
  }

  // Faults that all transports of the job together had.
  transport::FaultCounts faults() {
    const std::lock_guard lock(mutex_);
    transport::FaultCounts sum = gone_;
    for (const auto* faulty : faulty_) {
      const auto counts = faulty->counts();
      sum.cuts += counts.cuts;
      sum.corruptions += counts.corruptions;
      sum.reorderings += counts.reorderings;
    }
    return sum;
  }

  std::optional<wire::Stop> verdict;  // after join()
  std::optional<Json> final_report;
  std::vector<Json> progress;

  static constexpr Duration kDeadline = std::chrono::seconds(20);

 private:
  // A faulty transport whose counts outlive it.
  class Counted final : public transport::Transport {
   public:
    Counted(Cluster& cluster, std::unique_ptr<transport::FaultyTransport> inner) : cluster_(cluster), inner_(std::move(inner)) {
      const std::lock_guard lock(cluster_.mutex_);
      cluster_.faulty_.insert(inner_.get());
    }
    ~Counted() override {
      const std::lock_guard lock(cluster_.mutex_);
      const auto counts = inner_->counts();
      cluster_.gone_.cuts += counts.cuts;
      cluster_.gone_.corruptions += counts.corruptions;
      cluster_.gone_.reorderings += counts.reorderings;
      cluster_.faulty_.erase(inner_.get());
    }
    transport::Loop& loop() override { return inner_->loop(); }
    Result<std::unique_ptr<transport::Listener>> listen(const transport::Address& address, const transport::ListenOptions& options,
                                                        Accepted accepted) override {
      return inner_->listen(address, options, std::move(accepted));
    }
    void connect(const transport::Address& address, Duration deadline, Connected connected) override {
      inner_->connect(address, deadline, std::move(connected));
    }

   private:
    Cluster& cluster_;
    std::unique_ptr<transport::FaultyTransport> inner_;
  };

  std::unique_ptr<transport::Transport> make_transport() {
    const bool tcp = backend_ == Backend::kTcp || backend_ == Backend::kFaultyTcp;
    auto plain = tcp ? transport::make_tcp_transport() : network_.make_transport();
    if (!is_faulty(backend_)) return plain;
    transport::FaultOptions faults;
    faults.seed = ++transports_made_;
    faults.reorder = 0.02;
    faults.longest_delay = std::chrono::milliseconds(3);
    faults.cut_before = faults.cut_inside = faults.cut_after = 0.002;
    faults.corrupt_head = faults.corrupt_payload = 0.003;
    return std::make_unique<Counted>(*this, transport::make_faulty_transport(std::move(plain), faults));
  }

  void add_server(std::int32_t rank) {
    MemberOptions options = member(100 + static_cast<std::uint64_t>(rank));
    options.wanted_rank = rank;
    threads_.emplace_back([this, options] {
      const auto transport = make_transport();
      ServerProcess server(*transport, options, [&](const wire::Stop&) { transport->loop().stop(); });
      const Status started = server.start();
      EXPECT_TRUE(started.ok()) << started.message();
      transport->loop().run();
    });
  }

  static Status train(WorkerProcess& worker, Iteration iteration, const wire::TensorTable& tensors, std::vector<float>& gradients) {
    paramserver::GradientExchange& client = worker.exchange();
    for (std::size_t layer = 0; layer < tensors.layers.size(); ++layer) {
      PACELINE_RETURN_IF_ERROR(client.wait_layer(Layer{static_cast<std::int32_t>(layer)}, iteration));
    }
    PACELINE_RETURN_IF_ERROR(client.wait_gradients_free());
    const std::vector<float> made = gradient_of(kSeed, worker.rank().value, iteration, static_cast<std::int64_t>(gradients.size()));
    std::ranges::copy(made, gradients.begin());
    for (std::size_t tensor = tensors.tensors.size(); tensor-- > 0;)
      PACELINE_RETURN_IF_ERROR(client.gradient_ready(static_cast<std::uint32_t>(tensor)));
    return client.backward_done(iteration);
  }

  Backend backend_;
  Job job_;
  transport::InprocNetwork network_;
  std::atomic<std::uint64_t> transports_made_ = 0;
  std::mutex mutex_;
  std::set<transport::FaultyTransport*> faulty_;
  transport::FaultCounts gone_;
  std::unique_ptr<transport::Transport> coordinator_transport_;
  std::unique_ptr<Coordinator> coordinator_;
  transport::Address address_;
  std::vector<std::thread> threads_;
};

std::vector<float> expected_parameters(const Job& job, Iteration iterations) {
  const wire::TensorTable tensors = table();
  const auto plan = make_job_plan(job.settings, tensors, job.workers, job.servers, 1);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  paramserver::testing::Reference reference(tensors, (*plan)->options().update,
                                            paramserver::testing::initial_values(kSeed, tensors.elements()));
  const std::vector<std::vector<bool>> none(static_cast<std::size_t>(job.workers), std::vector<bool>(tensors.tensors.size()));
  for (Iteration iteration = 1; iteration <= iterations; ++iteration) {
    std::vector<std::vector<float>> gradients;
    for (std::int32_t worker = 0; worker < job.workers; ++worker)
      gradients.push_back(gradient_of(kSeed, worker, iteration, tensors.elements()));
    reference.train(iteration, gradients, none);
  }
  return reference.parameters;
}

class RuntimeTest : public ::testing::TestWithParam<Backend> {};

TEST_P(RuntimeTest, AJobGivesTheBitsOfPlainLoops) {
  Job job;
  job.workers = 3;
  job.settings.learning_rate = "0.001";
  if (is_faulty(GetParam())) job.iterations = 60;
  for (const char* schedule : {"default", "layer-wise", "p3"}) {
    for (const char* optimizer : {"momentum", "adam"}) {
      // Processes of one role; some, then all that are both, clipping, for which servers talk to each other.
      const bool adam = optimizer == std::string("adam"), p3 = schedule == std::string("p3");
      job.both = p3 ? (adam ? 3 : 1) : 0;
      job.servers = job.both == 3 ? 3 : 2;
      job.settings.clip_norm = p3 ? 0.5 : 0;
      SCOPED_TRACE(fmt::format("{} {} {} both", schedule, optimizer, job.both));
      job.settings.schedule = schedule;
      job.settings.optimizer = optimizer;
      Cluster cluster(GetParam(), job);
      std::vector<std::vector<float>> parameters(static_cast<std::size_t>(job.workers));
      std::vector<std::future<Status>> ends;
      for (std::int32_t rank = 0; rank < job.workers; ++rank) {
        ends.push_back(std::async(std::launch::async, [&, rank] {
          return cluster.work(rank, parameters[static_cast<std::size_t>(rank)], job.settings);
        }));
      }
      for (auto& end : ends) {
        const Status status = end.get();
        EXPECT_TRUE(status.ok()) << status.message();
      }
      cluster.join();
      const std::vector<float> expected = expected_parameters(job, job.iterations);
      for (const auto& mine : parameters) EXPECT_EQ(std::memcmp(mine.data(), expected.data(), expected.size() * sizeof(float)), 0);
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

TEST_P(RuntimeTest, AJobWithoutServersGivesTheBitsOfPlainLoopsWhateverTheLoop) {
  struct Case {
    const char* loop;
    const char* algorithm;
    const char* optimizer;
    std::int32_t workers;
    double clip_norm;
    std::int64_t broadcast_every;
    const char* merge;
  };
  for (const Case& one : {Case{"loop1", "best", "adam", 3, 0, 0, ""}, Case{"loop2", "best", "momentum", 4, 0, 0, ""},
                          Case{"loop3", "direct", "adam", 3, 0.5, 5, "0"}, Case{"loop3-overlap", "lp", "momentum", 4, 0, 0, "5000"},
                          Case{"loop3-overlap", "best", "adam", 2, 0, 3, ""}, Case{"loop1", "lp", "momentum", 1, 0.5, 0, ""}}) {
    SCOPED_TRACE(fmt::format("{} by {} of {} workers", one.loop, one.algorithm, one.workers));
    Job job;
    job.workers = one.workers;
    job.servers = 0;
    job.settings.collective = one.loop;
    job.settings.algorithm = one.algorithm;
    job.settings.optimizer = one.optimizer;
    job.settings.clip_norm = one.clip_norm;
    job.settings.broadcast_every = one.broadcast_every;
    job.settings.merge = one.merge;
    job.settings.learning_rate = "0.001";
    if (is_faulty(GetParam())) job.iterations = 40;
    Cluster cluster(GetParam(), job);
    std::vector<std::vector<float>> parameters(static_cast<std::size_t>(job.workers));
    std::vector<std::future<Status>> ends;
    for (std::int32_t rank = 0; rank < job.workers; ++rank) {
      ends.push_back(std::async(
          std::launch::async, [&, rank] { return cluster.work(rank, parameters[static_cast<std::size_t>(rank)], job.settings); }));
    }
    for (auto& end : ends) {
      const Status status = end.get();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    cluster.join();
    const std::vector<float> expected = expected_parameters(job, job.iterations);
    for (const auto& mine : parameters) EXPECT_EQ(std::memcmp(mine.data(), expected.data(), expected.size() * sizeof(float)), 0);
    ASSERT_TRUE(cluster.final_report) << cluster.verdict->reason;
    EXPECT_EQ((*cluster.final_report)["servers"], 0);
    EXPECT_EQ((*cluster.final_report)["schedule"], one.loop);
  }
}

// The sums of all units in the order in which the plan of `algorithm` adds.
std::vector<float> sums_by_plan(const paramserver::JobPlan& plan, collectives::Operation operation,
                                collectives::Algorithm algorithm, const std::vector<std::vector<float>>& gradients) {
  std::vector<float> sums;
  const auto ranks = static_cast<int>(gradients.size());
  for (const scheduling::Unit& unit : plan.units().units) {
    std::vector<std::vector<float>> buffers;
    for (const auto& gradient : gradients) {
      buffers.emplace_back(gradient.begin() + unit.offset, gradient.begin() + unit.offset + unit.elements);
      buffers.back().resize(buffers.back().size() + unit.parts, 1.0F);  // how many workers used each tensor travels along
    }
    const int root = operation == collectives::Operation::kReduce ? ranks - 1 : 0;
    const auto steps =
        collectives::make_plan({operation, algorithm, ranks, unit.elements + unit.parts, unit.elements + unit.parts, root});
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    collectives::PlanPlayer<float> player(*steps, std::move(buffers), 0.0F);
    std::vector<int> order(gradients.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_TRUE(player.play(order).ok());
    sums.insert(sums.end(), player.buffer(root).begin(), player.buffer(root).begin() + unit.elements);
  }
  return sums;
}

TEST_P(RuntimeTest, AnAlgorithmWithAnOrderOfItsOwnGivesTheBitsOfItsPlan) {
  using collectives::Algorithm;
  using collectives::Operation;
  for (const auto& [loop, name, operation, algorithm] :
       {std::tuple{"loop3", "ring", Operation::kAllreduce, Algorithm::kRing},
        {"loop3-overlap", "be", Operation::kAllreduce, Algorithm::kBidirectionalExchange},
        {"loop3", "mst", Operation::kAllreduce, Algorithm::kMinimumSpanningTree},
        {"loop1", "mst", Operation::kReduce, Algorithm::kMinimumSpanningTree},
        {"loop2", "be", Operation::kReduce, Algorithm::kBidirectionalExchange}}) {
    SCOPED_TRACE(fmt::format("{} by {}", loop, name));
    Job job;
    job.workers = 4;
    job.servers = 0;
    job.iterations = 3;
    job.settings.collective = loop;
    job.settings.algorithm = name;
    job.settings.merge = "5000";
    Cluster cluster(GetParam(), job);
    std::vector<std::vector<float>> parameters(static_cast<std::size_t>(job.workers));
    std::vector<std::future<Status>> ends;
    for (std::int32_t rank = 0; rank < job.workers; ++rank) {
      ends.push_back(std::async(
          std::launch::async, [&, rank] { return cluster.work(rank, parameters[static_cast<std::size_t>(rank)], job.settings); }));
    }
    for (auto& end : ends) {
      const Status status = end.get();
      EXPECT_TRUE(status.ok()) << status.message();
    }
    cluster.join();
    const wire::TensorTable tensors = table();
    const auto plan = make_job_plan(job.settings, tensors, job.workers, 0, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    std::vector<float> expected = paramserver::testing::initial_values(kSeed, tensors.elements());
    for (Iteration iteration = 1; iteration <= job.iterations; ++iteration) {
      std::vector<std::vector<float>> gradients;
      for (std::int32_t worker = 0; worker < job.workers; ++worker)
        gradients.push_back(gradient_of(kSeed, worker, iteration, tensors.elements()));
      const std::vector<float> sums = sums_by_plan(**plan, operation, algorithm, gradients);
      for (std::size_t i = 0; i < sums.size(); ++i) expected[i] = expected[i] - 0.05F * (sums[i] * 0.25F);
    }
    for (const auto& mine : parameters) EXPECT_EQ(std::memcmp(mine.data(), expected.data(), expected.size() * sizeof(float)), 0);
  }
}

TEST_P(RuntimeTest, AnInterruptEndsAJobWithoutServersAfterTheSameIterationEverywhere) {
  Job job;
  job.iterations = 1'000'000;
  job.servers = 0;
  job.settings.collective = "loop1";
  Cluster cluster(GetParam(), job);
  std::vector<std::vector<float>> parameters(2);
  std::atomic<Iteration> last = 0;
  const auto work = [&](std::int32_t rank) {
    return cluster.work(rank, parameters[static_cast<std::size_t>(rank)], job.settings,
                        [&, rank](WorkerProcess&, Iteration iteration) {
                          if (rank == 0 && iteration == 5) cluster.interrupt();
                          if (rank == 0) last = iteration;
                        });
  };
  auto second = std::async(std::launch::async, work, 1);
  const Status one = work(0), two = second.get();
  EXPECT_EQ(one.message(), "interrupted by the test");
  EXPECT_EQ(two.message(), one.message());
  cluster.join();
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], expected_parameters(job, last));
}

TEST_P(RuntimeTest, AWorkerThatWantsServersAndAJobWithoutThemDoNotFitAndTheOtherWayRound) {
  for (const auto& [servers, collective, expected] :
       {std::tuple{0, "none", "wants servers, but the coordinator was started with --servers 0"},
        {2, "loop3", "but the coordinator was started for 2 servers; start it with --servers 0"}}) {
    Job job;
    job.workers = 1;
    job.servers = servers;
    JobSettings settings;
    settings.collective = collective;
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
    job.settings.model = "replay:made up";
    job.settings.schedule = schedule;
    job.settings.sync = sync;
    job.settings.speed = speed;
    job.settings.scale = 8;  // slices of 6250
    job.settings.iterations = 30;
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
    if (job.settings.sync != "bsp") continue;
    const auto reference = replay::run_reference(
        layers, job.settings, job.workers, [](Iteration) {}, [] { return false; });
    ASSERT_TRUE(reference.ok());
    EXPECT_EQ((*cluster.final_report)["parameters_hash"], reference->front().parameters_hash);
  }
}

TEST_P(RuntimeTest, WorkersThatDisagreeAllHearTheSameDifference) {
  Job job;
  Cluster cluster(GetParam(), job);
  JobSettings other = job.settings;
  other.optimizer = "adam";
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
  std::vector<std::vector<float>> parameters(2);
  std::atomic<Iteration> last = 0;
  const auto work = [&](std::int32_t rank) {
    return cluster.work(rank, parameters[static_cast<std::size_t>(rank)], job.settings,
                        [&, rank](WorkerProcess&, Iteration iteration) {
                          if (rank == 0 && iteration == 5) cluster.interrupt();
                          if (rank == 0) last = iteration;
                        });
  };
  auto second = std::async(std::launch::async, work, 1);
  const Status one = work(0), two = second.get();
  EXPECT_EQ(one.kind(), ErrorKind::kCancelled);
  EXPECT_EQ(two.message(), "interrupted by the test");
  cluster.join();
  ASSERT_TRUE(cluster.final_report);
  EXPECT_EQ((*cluster.final_report)["iterations"], last.load());
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(parameters[0], expected_parameters(job, last));
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

INSTANTIATE_TEST_SUITE_P(Backends, RuntimeTest,
                         ::testing::Values(Backend::kInproc, Backend::kTcp, Backend::kFaultyInproc, Backend::kFaultyTcp), name_of);

}  // namespace
}  // namespace paceline::runtime
