// The nodes of predict.h in virtual time: workers and servers step the ledgers that the real ones step, nodes their EgressQueue.
// Nothing is decided here: what a ledger wants sent takes a link, what it wants updated takes a server's time. Used once:
// construct, run().
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "paramserver/core/push_ledger.h"
#include "paramserver/core/server_ledger.h"
#include "prediction/predict.h"
#include "scheduling/egress_queue.h"
#include "scheduling/ingress_queue.h"

namespace paceline::prediction {

class VirtualCluster {
 public:
  // `job` and `cluster` are valid and fit the plan; the cluster's window is given.
  VirtualCluster(std::shared_ptr<const paramserver::JobPlan> plan, const Job& job, const Cluster& cluster);

  // Return::kPullInBatches, PushWhen::kInBatches: of one worker.
  void set_batches(std::int32_t worker, const scheduling::Bounds& bounds);
  void set_push_batches(std::int32_t worker, const scheduling::Bounds& bounds);

  // Seconds per iteration, over the last ones of a few.
  double run();
  // After run(), over the same iterations: messages with payload that took a link.
  double messages_per_iteration() const;

 private:
  enum class Kind : std::uint8_t { kPush, kPull, kValue, kNotify };
  struct Message {
    Kind kind = Kind::kPush;
    std::int32_t worker = 0, server = 0;
    std::uint32_t unit = 0, detail = 0;  // the first and the last unit
    Iteration iteration = 0;
    std::int64_t bytes = 0, received = 0;
    std::uint32_t lane = 0;  // of the sender's queue
  };
  struct Event {
    enum class Kind : std::uint8_t { kSent, kArrived, kComputed, kAggregated };
    std::int64_t time = 0;  // nanoseconds
    std::uint64_t sequence = 0;
    Kind kind = Kind::kSent;
    std::uint32_t subject = 0;  // node, message, worker or server
    std::int64_t bytes = 0;     // kArrived
    bool operator>(const Event& other) const { return std::pair(time, sequence) > std::pair(other.time, other.sequence); }
  };
  struct Node {
    explicit Node(const scheduling::EgressOptions& options) : queue(options) {}
    scheduling::EgressQueue queue;
    std::uint32_t first_peer = 0;  // the node of lane 0; the others follow
    bool sending = false;
    std::int64_t processor_free = 0, ingress_free = 0;
  };
  struct Worker {
    explicit Worker(const std::shared_ptr<const paramserver::JobPlan>& plan, Rank rank)
        : gates(std::make_unique<paramserver::GateLedger>(plan, rank, paramserver::gate_rule(plan->options().schedule))),
          core(*gates, rank) {}
    std::unique_ptr<paramserver::GateLedger> gates;
    paramserver::PushLedger core;
    enum class Phase : std::uint8_t { kForward, kBackward } phase = Phase::kForward;
    std::int32_t layer = 0;
    bool computing = false;
  };
  struct Server {
    Server(paramserver::ServerLedger decisions, scheduling::Order order) : ledger(std::move(decisions)), waiting(order) {}
    paramserver::ServerLedger ledger;
    scheduling::IngressQueue<std::uint32_t> waiting;  // pushes, by message
    std::uint32_t working_on = 0;
    bool working = false;
  };

  std::int32_t layers() const { return plan_->layers(); }
  std::uint32_t node_of_worker(std::int32_t worker) const { return static_cast<std::uint32_t>(worker); }
  std::uint32_t node_of_server(std::int32_t server) const;
  TimePoint now() const { return TimePoint(Duration(now_)); }
  std::int64_t wire_time(std::int64_t bytes) const;
  void at(std::int64_t time, Event::Kind kind, std::uint32_t subject, std::int64_t bytes = 0);
  void give_initial_values();
  void send(Message message, std::uint32_t from, std::uint32_t to);
  void pump(std::uint32_t node);
  void on_arrived(std::uint32_t message, std::int64_t bytes);
  void deliver(std::uint32_t message);
  void free_message(std::uint32_t message) { unused_messages_.push_back(message); }
  void aggregate(std::int32_t server);
  void on_aggregated(std::int32_t server);
  void on_pull(const Message& pull);
  void carry_out(const paramserver::ServerLedger& server);
  std::span<const std::uint32_t> units_between(std::uint32_t unit, std::uint32_t last) const;
  std::int64_t bytes_between(std::uint32_t unit, std::uint32_t last) const;
  void send_actions(std::int32_t worker);
  void go_on(std::int32_t worker);
  void on_computed(std::int32_t worker);
  bool done() const;

  std::shared_ptr<const paramserver::JobPlan> plan_;
  const Job& job_;
  Cluster cluster_;
  std::vector<std::vector<std::uint32_t>> tensors_;  // by layer
  std::vector<Node> nodes_;
  std::vector<Worker> workers_;
  std::vector<Server> servers_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> unused_messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  struct End {
    std::int64_t time = 0, messages = 0;
  };
  std::vector<End> ends_;  // of worker 0's iterations
  std::vector<paramserver::WorkerAction> actions_;
  paramserver::ServerLedger::Effects effects_;
  std::vector<paramserver::GateLedger::Complete> complete_;
  std::int64_t now_ = 0, sent_messages_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace paceline::prediction
