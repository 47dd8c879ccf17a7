// Whole jobs - coordinator, servers, workers - as threads of one process, for tests.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "job/make_plan.h"
#include "job/testing.h"
#include "replay/worker.h"
#include "runtime/coordinator.h"
#include "runtime/worker_process.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/inproc/inproc_transport.h"

namespace paceline::runtime::testing {

using job::testing::give;

enum class Backend { kInproc, kTcp, kFaultyInproc, kFaultyTcp };

bool is_faulty(Backend backend);
std::string name_of(const ::testing::TestParamInfo<Backend>& info);

struct Job {
  std::int32_t workers = 2, servers = 2;
  std::int32_t both = 0;  // of them, processes of the lowest ranks that are worker and server
  job::JobSpec settings;
  Iteration iterations = 12;
  // Changes a worker's gradients of an iteration, and says which tensors it does not use.
  std::function<std::vector<std::uint32_t>(std::int32_t rank, Iteration iteration, std::span<float> gradients)> spoil = {};
  bool frozen = false;              // the tensors of the last layer
  bool traced = false;              // with a timeline, and clocks that are minutes apart and drift
  bool interrupted_at_end = false;  // by rank 0, between its program's last step and its report
};

constexpr std::uint64_t kSeed = 5;

wire::TensorTable table(bool frozen = false);

// What every worker's parameters have to be after so many iterations: by plain loops.
std::vector<float> expected_parameters(const Job& job, Iteration iterations);
void expect_same_bits(const std::vector<std::vector<float>>& all, const std::vector<float>& expected);

// The threads of one job. Each rank has a loop of its own.
class Cluster {
 public:
  Cluster(Backend backend, const Job& job);
  ~Cluster() { join(); }
  void join();

  // One worker's life: joins, pushes made-up gradients, and returns how the job ended for it.
  Status work(std::int32_t rank, std::vector<float>& parameters, const job::JobSpec& settings,
              const std::function<void(WorkerProcess&, Iteration)>& at_iteration = {});
  // All workers' lives, which have to end well, and the job's; every worker's parameters. `at_iteration`: after each backward, on
  // the worker's thread.
  std::vector<std::vector<float>> work_all(const std::function<void(WorkerProcess&, Iteration)>& at_iteration = {});
  // Both workers' lives until the job is interrupted, which is when rank 0 has ended iteration `at`.
  struct Interrupted {
    std::array<Status, 2> ends;
    std::array<std::vector<float>, 2> parameters;
    Iteration last = 0;  // of rank 0
  };
  Interrupted work_until_interrupted(Iteration at);
  // One replaying worker's life; it checks every value by itself.
  Status replay(std::int32_t rank, const replay::LayerTable& table, const job::JobSpec& settings);

  void interrupt();
  // Faults that all transports of the job together had.
  transport::FaultCounts faults();

  std::optional<wire::Stop> verdict;  // after join()
  std::optional<report::Json> final_report;
  std::vector<report::Json> progress;
  std::vector<std::pair<std::string, Iteration>> saved;  // who, and its part of which checkpoint
  timeline::TimelineCollector timeline;

 private:
  class Counted;

  std::unique_ptr<transport::Transport> make_transport();
  MemberOptions member(std::uint64_t seed) const;
  void add_server(std::int32_t rank);

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

}  // namespace paceline::runtime::testing
