// A whole parameter-server job as threads of this process, for tests: servers and workers with an endpoint each, over any backend,
// and training threads whose gradients are a function of worker, iteration and index.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "exchange/gradient_exchange.h"
#include "job/testing_jobs.h"
#include "paramserver/service/server_service.h"
#include "session_node.h"

namespace paceline::paramserver::testing {

using namespace job::testing;

using session::testing::Backend;

struct JobSetting {
  std::uint64_t seed = 1;
  wire::TensorTable table;
  job::PlanOptions options;
  Iteration iterations = 4;
  unsigned unused_per_cent = 0;
  bool ledger = false;  // all values begin at 0 and all gradients are 1
  Duration stall_deadline = std::chrono::minutes(2);
  std::uint32_t threads = 1;  // of each worker, which wait at every gate and share the tensors out
};

// A node that sends through its endpoint and hands what comes to its end of the channels.
class Process final : public session::Sender {
 public:
  Process(const Backend& backend, const wire::PeerName& name, const JobSetting& setting);
  ~Process() override;

  void lose(const wire::PeerName& peer);  // ends the session, whatever of it is on its way, and tells the end
  void connect_all();                     // after all peers are there: learns their numbers
  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override;

  session::testing::Node node;
  std::unique_ptr<ServerService> server;
  std::unique_ptr<exchange::GradientExchange> worker;
  std::vector<float> parameters, gradients;
  exchange::Account account;                       // of all iterations
  Iteration iterations = 0;                        // done by the training thread
  Status failure;                                  // what the training thread ended with
  std::vector<Status> reported;                    // on_failed; loop only
  std::map<wire::MessageKind, std::int64_t> sent;  // messages; loop only

  session::ChannelEnd& end() { return server ? static_cast<session::ChannelEnd&>(*server) : worker->carrier(); }

 private:
  std::map<wire::PeerName, session::PeerId> peers_;
  std::map<session::PeerId, wire::PeerName> names_;
};

class Job {
 public:
  Job(const Backend& backend, JobSetting setting);
  ~Job();

  using AtIteration = std::function<void(std::int32_t worker, Iteration)>;
  // Says when a worker vanishes: in the middle of this backward, its pushes partly on their way.
  using Vanishes = std::function<bool(std::int32_t worker, Iteration)>;
  // Runs all training threads to their end. `at_iteration`: called by each training thread before each iteration's backward. With
  // models other than BSP workers take the mini-batches that are handed out, iterations * workers of them.
  void train(const AtIteration& at_iteration = {}, const Vanishes& vanishes = {});
  // What the parameters must be after all iterations (BSP).
  const std::vector<float>& expected();

  std::vector<std::unique_ptr<Process>> servers, workers;
  std::shared_ptr<const job::Plan> plan;

 private:
  Status train_one(Process& process, std::int32_t worker, const AtIteration& at_iteration, const Vanishes& vanishes);
  Status iterate(Process& process, std::int32_t worker, Iteration iteration, const AtIteration& at_iteration,
                 const Vanishes& vanishes);
  Status vanish(Process& process, std::int32_t worker);
  Status check_layer(Process& process, std::int32_t worker, Layer layer, Iteration iteration);
  Status make_gradient(Process& process, std::int32_t worker, std::uint32_t tensor, Iteration iteration);

  JobSetting setting_;
  std::vector<std::int64_t> offsets_;        // of tensors in the arena
  std::vector<std::vector<float>> history_;  // parameters after each iteration
  std::vector<std::vector<std::uint32_t>> scratch_;
};

}  // namespace paceline::paramserver::testing
