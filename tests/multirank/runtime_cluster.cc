#include "runtime_cluster.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "base/checksum.h"
#include "job/testing_jobs.h"
#include "runtime/node.h"
#include "transport/tcp/tcp_transport.h"

namespace paceline::runtime::testing {
namespace {

using job::testing::gradient_of;

constexpr Duration kDeadline = std::chrono::seconds(20);

Status train(WorkerProcess& worker, Iteration iteration, const wire::TensorTable& tensors, std::vector<float>& gradients,
             const Job& job) {
  exchange::GradientExchange& client = worker.exchange();
  for (std::size_t layer = 0; layer < tensors.layers.size(); ++layer) {
    PACELINE_RETURN_IF_ERROR(client.wait_layer(Layer{static_cast<std::int32_t>(layer)}, iteration));
  }
  PACELINE_RETURN_IF_ERROR(client.wait_gradients_free());
  const std::vector<float> made = gradient_of(kSeed, worker.rank().value, iteration, static_cast<std::int64_t>(gradients.size()));
  std::ranges::copy(made, gradients.begin());
  std::vector<std::uint32_t> unused;
  if (job.spoil) unused = job.spoil(worker.rank().value, iteration, gradients);
  for (auto tensor = static_cast<std::uint32_t>(tensors.tensors.size()); tensor-- > 0;) {
    if (tensors.tensors[tensor].frozen) continue;
    if (std::ranges::find(unused, tensor) == unused.end()) PACELINE_RETURN_IF_ERROR(client.gradient_ready(tensor));
  }
  return client.backward_done(iteration, unused);
}

}  // namespace

bool is_faulty(Backend backend) { return backend == Backend::kFaultyInproc || backend == Backend::kFaultyTcp; }

std::string name_of(const ::testing::TestParamInfo<Backend>& info) {
  constexpr std::array<const char*, 4> kNames = {"Inproc", "Tcp", "FaultyInproc", "FaultyTcp"};
  return kNames[static_cast<std::size_t>(info.param)];
}

wire::TensorTable table(bool frozen) {
  wire::TensorTable made = job::testing::table_of({{3000, 7}, {40'000}, {1, 500}});
  for (wire::TensorInfo& tensor : made.tensors) tensor.frozen = frozen && tensor.layer == Layer{2};
  return made;
}

std::vector<float> expected_parameters(const Job& job, Iteration iterations) {
  const wire::TensorTable tensors = table();
  const auto plan = make_plan(job.settings, tensors, job.workers, job.servers, 1);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  job::testing::Reference reference((*plan)->table(), (*plan)->options().update,
                                    job::testing::initial_values(kSeed, tensors.elements()));
  const std::vector<std::vector<bool>> none(static_cast<std::size_t>(job.workers), std::vector<bool>(tensors.tensors.size()));
  for (Iteration iteration = 1; iteration <= iterations; ++iteration) {
    std::vector<std::vector<float>> gradients;
    for (std::int32_t worker = 0; worker < job.workers; ++worker)
      gradients.push_back(gradient_of(kSeed, worker, iteration, tensors.elements()));
    reference.train(iteration, gradients, none);
  }
  return reference.parameters;
}

void expect_same_bits(const std::vector<std::vector<float>>& all, const std::vector<float>& expected) {
  for (const auto& mine : all) {
    ASSERT_EQ(mine.size(), expected.size());
    EXPECT_EQ(std::memcmp(mine.data(), expected.data(), expected.size() * sizeof(float)), 0);
  }
}

// A faulty transport whose counts outlive it.
class Cluster::Counted final : public transport::Transport {
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
  void connect(const transport::Address& address, const transport::ConnectOptions& options, Connected connected) override {
    inner_->connect(address, options, std::move(connected));
  }

 private:
  Cluster& cluster_;
  std::unique_ptr<transport::FaultyTransport> inner_;
};

Cluster::Cluster(Backend backend, const Job& job) : backend_(backend), job_(job) {
  coordinator_transport_ = make_transport();
  CoordinatorOptions options;
  options.workers = job.workers;
  options.servers = job.servers;
  options.silence_deadline = kDeadline;
  options.release = "test";
  options.job = 77;
  if (job.traced) options.timeline = &timeline;
  CoordinatorCallbacks callbacks;
  callbacks.on_ended = [this](const wire::Stop& stop, const std::optional<report::Json>& report) {
    verdict = stop;
    final_report = report;
    coordinator_transport_->loop().stop();
  };
  callbacks.on_progress = [this](const report::Json& told) { progress.push_back(told); };
  callbacks.on_saved = [this](const wire::Seat& from, Iteration iteration, const std::string&) {
    saved.emplace_back(from.text(), iteration);
  };
  coordinator_ = std::make_unique<Coordinator>(*coordinator_transport_, options, callbacks);
  const auto address = coordinator_->start();
  EXPECT_TRUE(address.ok()) << address.status().message();
  address_ = *address;
  threads_.emplace_back([this] { coordinator_transport_->loop().run(); });
  for (std::int32_t rank = job.both; rank < job.servers; ++rank) add_server(rank);
}

void Cluster::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

MemberOptions Cluster::member(std::uint64_t seed) const {
  MemberOptions options;
  options.coordinator = address_;
  options.listen = {address_.host, 0};
  options.silence_deadline = kDeadline;
  options.release = "test";
  options.seed = seed;
  if (job_.traced) {
    const std::int64_t offset = (static_cast<std::int64_t>(seed * 7919 % 1000) - 500) * 1'000'000'000;
    const double drift = (static_cast<double>(seed % 5) - 2) * 1e-4;
    options.clock = [offset, drift](TimePoint at) {
      const std::int64_t real = at.time_since_epoch().count();
      return real + offset + static_cast<std::int64_t>(static_cast<double>(real) * drift);
    };
  }
  return options;
}

Status Cluster::work(std::int32_t rank, std::vector<float>& parameters, const job::JobSpec& settings,
                     const std::function<void(WorkerProcess&, Iteration)>& at_iteration) {
  const wire::TensorTable tensors = table(job_.frozen);
  const std::int64_t elements = tensors.elements();
  parameters = job::testing::initial_values(kSeed + static_cast<std::uint64_t>(rank), elements);  // only rank 0's count
  std::vector<float> gradients(parameters.size());
  MemberOptions options = member(1000 + static_cast<std::uint64_t>(rank));
  options.wanted_rank = rank;
  if (rank < job_.both) options.roles = wire::Role::kWorker | wire::Role::kServer;
  options.table = tensors;
  options.settings = to_settings(settings);
  const auto process = WorkerProcess::join([this] { return Result<std::unique_ptr<transport::Transport>>(make_transport()); },
                                           options, parameters, gradients);
  if (!process.ok()) return process.status();
  WorkerProcess& worker = **process;
  report::WorkerReport report;
  report.rank = rank;
  for (Iteration iteration = 1; iteration <= job_.iterations; ++iteration) {
    const Status status = train(worker, iteration, tensors, gradients, job_);
    if (!status.ok()) return worker.fail(status);
    if (at_iteration) at_iteration(worker, iteration);
    const auto last = worker.end_iteration(iteration);
    if (!last.ok()) return worker.fail(last.status());
    report.iterations = iteration;
    if (*last) break;
  }
  if (job_.interrupted_at_end && rank == 0) interrupt();
  if (const Status status = worker.exchange().wait_all(report.iterations); !status.ok()) return worker.fail(status);
  Hash128 hash;
  hash.update(std::as_bytes(std::span(parameters)));
  report.parameters_hash = hash.hex();
  return worker.finish(report);
}

std::vector<std::vector<float>> Cluster::work_all(const std::function<void(WorkerProcess&, Iteration)>& at_iteration) {
  std::vector<std::vector<float>> parameters(static_cast<std::size_t>(job_.workers));
  std::vector<std::future<Status>> ends;
  for (std::int32_t rank = 0; rank < job_.workers; ++rank) {
    ends.push_back(std::async(std::launch::async, [&, rank] {
      return work(rank, parameters[static_cast<std::size_t>(rank)], job_.settings, at_iteration);
    }));
  }
  for (auto& end : ends) {
    const Status status = end.get();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  join();
  return parameters;
}

Cluster::Interrupted Cluster::work_until_interrupted(Iteration at) {
  Interrupted result;
  std::array<std::future<void>, 2> lives;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const auto at_iteration = [this, rank, at, &result](WorkerProcess&, Iteration iteration) {
      if (rank != 0) return;
      if (iteration == at) interrupt();
      result.last = iteration;
    };
    lives[index] = std::async(std::launch::async, [this, rank, index, at_iteration, &result] {
      result.ends[index] = work(rank, result.parameters[index], job_.settings, at_iteration);
    });
  }
  for (auto& life : lives) life.get();
  join();
  return result;
}

Status Cluster::replay(std::int32_t rank, const replay::LayerTable& table, const job::JobSpec& settings) {
  replay::Arena arena(table, static_cast<std::uint64_t>(settings.task.seed));
  MemberOptions options = member(1000 + static_cast<std::uint64_t>(rank));
  options.wanted_rank = rank;
  options.table = replay::tensors_of(table);
  options.settings = to_settings(settings);
  const auto process = WorkerProcess::join([this] { return Result<std::unique_ptr<transport::Transport>>(make_transport()); },
                                           options, arena.parameters, arena.gradients);
  return process.ok() ? replay::run_worker(table, arena, **process) : process.status();
}

void Cluster::interrupt() {
  coordinator_transport_->loop().post([this] { coordinator_->interrupt("interrupted by the test"); });
}

transport::FaultCounts Cluster::faults() {
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

std::unique_ptr<transport::Transport> Cluster::make_transport() {
  const bool tcp = backend_ == Backend::kTcp || backend_ == Backend::kFaultyTcp;
  auto plain = tcp ? transport::make_tcp_transport() : network_.make_transport();
  if (!is_faulty(backend_)) return plain;
  transport::FaultOptions faults;
  faults.seed = ++transports_made_;
  faults.reorder = 0.02;
  faults.longest_delay = std::chrono::milliseconds(3);
  faults.cut_before = faults.cut_inside = faults.cut_after = 0.003;
  faults.corrupt_head = faults.corrupt_payload = 0.005;
  return std::make_unique<Counted>(*this, transport::make_faulty_transport(std::move(plain), faults));
}

void Cluster::add_server(std::int32_t rank) {
  MemberOptions options = member(100 + static_cast<std::uint64_t>(rank));
  options.wanted_rank = rank;
  threads_.emplace_back([this, options] {
    const auto transport = make_transport();
    const auto server = make_server(*transport, options, [&](const wire::Stop&) { transport->loop().stop(); });
    const Status started = server->start();
    EXPECT_TRUE(started.ok()) << started.message();
    transport->loop().run();
  });
}

}  // namespace paceline::runtime::testing
