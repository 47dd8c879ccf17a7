// The workers and servers of a job in virtual time: they step the ledgers that the real ones step, whatever the model of
// synchronisation. Nothing is decided here: what a ledger wants sent goes to the network, what it wants updated takes a server's
// time, and where layers compute a worker's time passes. Used once: construct, then one of the runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "paramserver/core/push_ledger.h"
#include "paramserver/core/server_ledger.h"
#include "scheduling/ingress_queue.h"
#include "simulation/predict.h"
#include "simulation/virtual_network.h"

namespace paceline::simulation {

class VirtualCluster final : private VirtualNetwork::Receiver {
 public:
  // `job` and `cluster` are valid, fit the plan, and outlive this. `links`: by node, workers first.
  VirtualCluster(std::shared_ptr<const job::Plan> plan, const Job& job, const Cluster& cluster,
                 const std::vector<VirtualNetwork::Link>& links);

  // Return::kPullInBatches, PushWhen::kInBatches: of one worker.
  void set_batches(std::int32_t worker, const scheduling::Bounds& bounds);
  void set_push_batches(std::int32_t worker, const scheduling::Bounds& bounds);

  // Of each worker, in the mean.
  struct Horizon {
    Iteration warm_up = 2, iterations = 5;  // the first ones do not count: nothing is on its way when a job begins
  };
  struct Pace {
    double iteration = 0, messages = 0;  // as in Prediction
  };
  Pace run(const Horizon& horizon);
  // Of workers in step: as soon as three iterations are equally long, or else of the second half of `most`.
  Pace run_until_settled(Iteration most);
  // A whole job: seconds until every worker has the last values.
  double run_to_the_end(Iteration iterations);

 private:
  struct Worker {
    explicit Worker(const std::shared_ptr<const job::Plan>& plan, Rank rank)
        : gates(std::make_unique<exchange::GateLedger>(plan, rank, paramserver::gate_rule(plan->options().schedule))),
          core(*gates, rank) {}
    std::unique_ptr<exchange::GateLedger> gates;
    paramserver::PushLedger core;
    enum class Phase : std::uint8_t { kForward, kBackward, kFinishing, kDone } phase = Phase::kForward;
    std::int32_t layer = 0;
    bool computing = false;
    Iteration begun = 0;                // the iteration that it has begun last
    double slowness = 1;                // in that iteration
    std::vector<Iteration> handed_out;  // mini-batches, not begun
    std::vector<std::int64_t> ends;     // of its iterations
  };
  struct Server {
    Server(paramserver::ServerLedger decisions, scheduling::Order order) : ledger(std::move(decisions)), waiting(order) {}
    paramserver::ServerLedger ledger;
    scheduling::IngressQueue<Parcel> waiting;  // pushes
    Parcel working_on;
    bool working = false;
  };
  struct Mark {
    std::int64_t time = 0, sent = 0;
  };

  void on_begin(const Parcel& parcel) override;
  void on_parcel(const Parcel& parcel) override;
  void on_woken(std::uint32_t sleeper) override;

  Worker& worker(Rank rank) { return workers_[static_cast<std::size_t>(rank.value)]; }
  Server& server(Rank rank) { return servers_[static_cast<std::size_t>(rank.value)]; }
  TimePoint now() const { return TimePoint(Duration(network_.now())); }
  std::uint32_t node_of_server(Rank rank) const;
  void give_initial_values();
  void send(const Parcel& parcel);
  std::int64_t payload_bytes(const wire::Message& message) const;
  template <typename Reached>
  void step_until(const Reached& reached);
  Pace pace_between(Iteration from, Iteration to) const;
  bool settled_between(Iteration from, Iteration to) const;
  std::int64_t bytes_between(std::uint32_t unit, std::uint32_t last) const;

  void on_message(Server& to, const Parcel& parcel);
  void work_on_next(Server& of);
  void on_worked(Server& of);
  void settle(Server& of);
  void send_effects(const paramserver::ServerLedger& ledger);
  void set_barriers(Server& of, const sync::BarrierQuestion& question);

  void on_message(Worker& to, const Parcel& parcel);
  void send_all(const Worker& of);
  bool in_iteration(Worker& of);
  bool may_begin(Worker& of);
  void finish(Worker& of);
  void go_on(Worker& of);
  void on_computed(Worker& of);
  void end_iteration(Worker& of);
  double mean_iteration(const Horizon& horizon) const;

  std::shared_ptr<const job::Plan> plan_;
  const Job& job_;
  const Cluster& cluster_;
  std::vector<std::vector<std::uint32_t>> tensors_;  // by layer
  VirtualNetwork network_;
  std::vector<Worker> workers_;
  std::vector<Server> servers_;
  Iteration last_ = 0;  // of each worker, in the mean
  bool to_the_end_ = false;
  std::int64_t iterations_ended_ = 0, workers_done_ = 0;  // of all workers
  std::vector<Mark> marks_;                               // where an iteration of all workers has ended
  std::vector<paramserver::Send> sends_;
  paramserver::ServerLedger::Effects effects_;
  std::vector<exchange::GateLedger::Complete> complete_;
};

}  // namespace paceline::simulation
