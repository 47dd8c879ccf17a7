#include "prediction/virtual_cluster.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace paceline::prediction {
namespace {

constexpr Iteration kIterations = 5;
constexpr Iteration kWarmUp = 2;  // of them not counted: nothing is on its way when a job begins

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Here nobody makes a mistake that a ledger could refuse.
void expect(const Status& status) { PACELINE_CHECK(status.ok(), "{}", status.message()); }

}  // namespace

VirtualCluster::VirtualCluster(std::shared_ptr<const paramserver::JobPlan> plan, const Job& job, const Cluster& cluster)
    : plan_(std::move(plan)), job_(job), cluster_(cluster), tensors_(static_cast<std::size_t>(plan_->layers())) {
  for (std::uint32_t tensor = 0; tensor < job.table.tensors.size(); ++tensor)
    tensors_[static_cast<std::size_t>(job.table.tensors[tensor].layer.index)].push_back(tensor);
  const bool shared = cluster.layout == Cluster::Layout::kShared;
  const auto count = static_cast<std::size_t>(cluster.workers) + (shared ? 0 : static_cast<std::size_t>(cluster.servers));
  const scheduling::EgressRules rules = scheduling::egress_rules(plan_->options().schedule);
  for (std::size_t i = 0; i < count; ++i) {
    Node& node = nodes_.emplace_back(
        scheduling::EgressOptions{.window = *cluster.window, .wide = wide_for(rules.window, cluster.link), .chunk = cluster.chunk});
    node.queue.set_order(scheduling::Flow::kPush, rules.pushes);
    node.queue.set_order(scheduling::Flow::kReply, rules.replies);
    // Messages pass between workers and servers only, so lanes take memory by what is in use.
    const auto workers = static_cast<std::uint32_t>(cluster.workers);
    node.first_peer = shared || i >= workers ? 0 : workers;
    const auto peers = shared        ? static_cast<std::uint32_t>(count)
                       : i < workers ? static_cast<std::uint32_t>(cluster.servers)
                                     : workers;
    for (std::uint32_t peer = 0; peer < peers; ++peer) node.queue.resume(node.queue.add());
  }
  servers_.reserve(static_cast<std::size_t>(cluster.servers));
  for (std::int32_t rank = 0; rank < cluster.servers; ++rank) {
    auto ledger = paramserver::ServerLedger::make(plan_, Rank{rank});
    PACELINE_CHECK(ledger.ok(), "{}", ledger.status().message());
    servers_.emplace_back(std::move(*ledger), scheduling::ingress_order(plan_->options().schedule));
  }
  give_initial_values();
}

// Everybody has them when the first iteration begins.
void VirtualCluster::give_initial_values() {
  const Iteration label = plan_->options().first - 1;
  for (Server& server : servers_) {
    for (const std::uint32_t unit : server.ledger.units()) {
      const auto bytes = static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float);
      expect(server.ledger.on_initial_begin(Rank{0}, unit, label, bytes));
      expect(server.ledger.on_initial(Rank{0}, unit, label, now(), effects_));
    }
  }
  effects_.clear();
  workers_.reserve(static_cast<std::size_t>(cluster_.workers));
  for (std::int32_t rank = 0; rank < cluster_.workers; ++rank) {
    paramserver::PushLedger& core = workers_.emplace_back(plan_, Rank{rank}).core;
    for (const scheduling::Unit& unit : plan_->units().units) {
      if (rank == 0) {
        core.on_initial_received(unit.id);
        continue;
      }
      expect(core.on_value_begin(unit.server, {unit.id, unit.id, label}, plan_->payload_bytes(unit.id), now()).status());
      expect(core.on_value(unit.server, {unit.id, unit.id, label}, 0, now(), actions_));
    }
  }
}

void VirtualCluster::set_batches(std::int32_t worker, const scheduling::Bounds& bounds) {
  workers_[static_cast<std::size_t>(worker)].core.set_batches(bounds);
}

void VirtualCluster::set_push_batches(std::int32_t worker, const scheduling::Bounds& bounds) {
  workers_[static_cast<std::size_t>(worker)].core.set_push_batches(bounds);
}

std::uint32_t VirtualCluster::node_of_server(std::int32_t server) const {
  return static_cast<std::uint32_t>(cluster_.layout == Cluster::Layout::kShared ? server : cluster_.workers + server);
}

std::int64_t VirtualCluster::wire_time(std::int64_t bytes) const {
  return nanoseconds(static_cast<double>(bytes) / cluster_.link.value);
}

void VirtualCluster::at(std::int64_t time, Event::Kind kind, std::uint32_t subject, std::int64_t bytes) {
  events_.push({time, sequence_++, kind, subject, bytes});
}

bool VirtualCluster::done() const {
  return std::ranges::all_of(workers_, [](const Worker& worker) { return worker.gates->current() > kIterations; });
}

double VirtualCluster::run() {
  for (std::int32_t worker = 0; worker < cluster_.workers; ++worker) go_on(worker);
  while (!done()) {
    PACELINE_CHECK(!events_.empty(), "a predicted job stands still");
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    switch (event.kind) {
      case Event::Kind::kSent:
        nodes_[event.subject].sending = false;
        pump(event.subject);
        break;
      case Event::Kind::kArrived:
        on_arrived(event.subject, event.bytes);
        break;
      case Event::Kind::kComputed:
        on_computed(static_cast<std::int32_t>(event.subject));
        break;
      case Event::Kind::kAggregated:
        on_aggregated(static_cast<std::int32_t>(event.subject));
        break;
    }
  }
  return static_cast<double>(ends_[kIterations - 1].time - ends_[kWarmUp - 1].time) / 1e9 / (kIterations - kWarmUp);
}

double VirtualCluster::messages_per_iteration() const {
  return static_cast<double>(ends_[kIterations - 1].messages - ends_[kWarmUp - 1].messages) / (kIterations - kWarmUp);
}

// --- links ---

void VirtualCluster::send(Message message, std::uint32_t from, std::uint32_t to) {
  std::uint32_t slot = static_cast<std::uint32_t>(messages_.size());
  if (unused_messages_.empty()) {
    messages_.emplace_back();
  } else {
    slot = unused_messages_.back();
    unused_messages_.pop_back();
  }
  message.lane = to - nodes_[from].first_peer;
  messages_[slot] = message;
  if (from == to) return at(now_, Event::Kind::kArrived, slot, message.bytes);
  if (message.bytes > 0) ++sent_messages_;
  nodes_[from].queue.on_ready(
      {message.lane, plan_->units().units[message.unit].layer, Bytes{message.bytes}, slot,
       message.kind == Kind::kPush || message.kind == Kind::kPull ? scheduling::Flow::kPush : scheduling::Flow::kReply,
       message.iteration});
  pump(from);
}

void VirtualCluster::pump(std::uint32_t node) {
  Node& from = nodes_[node];
  if (from.sending) return;
  const auto chunk = from.queue.take();
  if (!chunk) return;
  Node& to = nodes_[from.first_peer + chunk->destination];
  const std::int64_t bytes = wire_time(chunk->size.count);
  std::int64_t begin = now_;
  if (chunk->offset.count == 0) {
    begin = std::max(begin, from.processor_free) + nanoseconds(cluster_.start_up);
    from.processor_free = begin + nanoseconds(cluster_.processing);
  }
  const std::int64_t sent = begin + bytes;
  to.ingress_free = std::max(sent, to.ingress_free + bytes);
  from.sending = true;
  at(sent, Event::Kind::kSent, node);
  at(to.ingress_free, Event::Kind::kArrived, static_cast<std::uint32_t>(chunk->tag), chunk->size.count);
}

void VirtualCluster::on_arrived(std::uint32_t index, std::int64_t bytes) {
  Message& message = messages_[index];
  const std::uint32_t worker = node_of_worker(message.worker), server = node_of_server(message.server);
  const bool to_server = message.kind == Kind::kPush || message.kind == Kind::kPull;
  const std::uint32_t from = to_server ? worker : server;
  if (worker != server) nodes_[from].queue.on_acknowledged(message.lane, Bytes{bytes});
  if (message.kind == Kind::kValue && message.received == 0) {
    expect(workers_[static_cast<std::size_t>(message.worker)]
               .core
               .on_value_begin(Rank{message.server}, {message.unit, message.detail, message.iteration},
                               static_cast<std::uint64_t>(message.bytes), now())
               .status());
  }
  message.received += bytes;
  if (message.received == message.bytes) deliver(index);
  pump(from);
}

void VirtualCluster::deliver(std::uint32_t index) {
  const Message message = messages_[index];
  Worker& worker = workers_[static_cast<std::size_t>(message.worker)];
  Server& server = servers_[static_cast<std::size_t>(message.server)];
  const Rank from{message.server};
  switch (message.kind) {
    case Kind::kPush: {
      worker.core.on_push_delivered(message.unit, now());
      server.waiting.on_arrived(plan_->units().units[message.unit].layer, index);
      aggregate(message.server);
      return go_on(message.worker);
    }
    case Kind::kPull:
      free_message(index);
      return on_pull(message);
    case Kind::kValue:
      expect(worker.core.on_value(from, {message.unit, message.detail, message.iteration}, 0, now(), actions_));
      break;
    case Kind::kNotify:
      expect(worker.core.on_notify(from, message.unit, message.iteration, actions_));
      break;
  }
  free_message(index);
  send_actions(message.worker);
  go_on(message.worker);
}

// --- servers ---

void VirtualCluster::aggregate(std::int32_t rank) {
  Server& server = servers_[static_cast<std::size_t>(rank)];
  if (server.working) return;
  const auto next = server.waiting.take();
  if (!next) return;
  server.working = true;
  server.working_on = *next;
  const auto bytes = static_cast<double>(messages_[server.working_on].bytes);
  at(now_ + nanoseconds(bytes * cluster_.aggregation), Event::Kind::kAggregated, static_cast<std::uint32_t>(rank));
}

void VirtualCluster::on_aggregated(std::int32_t rank) {
  Server& server = servers_[static_cast<std::size_t>(rank)];
  const Message push = messages_[server.working_on];
  free_message(server.working_on);
  server.working = false;
  for (const std::uint32_t unit : units_between(push.unit, push.detail)) {
    expect(server.ledger.on_push_begin(Rank{push.worker}, unit, push.iteration, plan_->payload_bytes(unit)));
    expect(server.ledger.on_push(Rank{push.worker}, unit, push.iteration, 0, now(), effects_));
    while (const auto update = server.ledger.next()) server.ledger.on_updated(*update, now(), effects_);
    carry_out(server.ledger);
  }
  aggregate(rank);
}

void VirtualCluster::on_pull(const Message& pull) {
  paramserver::ServerLedger& ledger = servers_[static_cast<std::size_t>(pull.server)].ledger;
  expect(ledger.on_pull(Rank{pull.worker}, pull.unit, pull.detail, pull.iteration, effects_));
  carry_out(ledger);
}

void VirtualCluster::carry_out(const paramserver::ServerLedger& server) {
  using Effect = paramserver::ServerEffect::Kind;
  for (const paramserver::ServerEffect& effect : std::exchange(effects_, {})) {
    Message message{.kind = Kind::kNotify,
                    .worker = effect.to.value,
                    .server = server.rank().value,
                    .unit = effect.unit,
                    .detail = effect.last,
                    .iteration = effect.iteration};
    if (effect.kind == Effect::kSendValue || effect.kind == Effect::kSendValues) {
      message.kind = Kind::kValue;
      message.bytes = bytes_between(effect.unit, effect.last);
    } else if (effect.kind != Effect::kNotify) {
      continue;
    }
    send(message, node_of_server(message.server), node_of_worker(message.worker));
  }
}

std::span<const std::uint32_t> VirtualCluster::units_between(std::uint32_t unit, std::uint32_t last) const {
  const scheduling::UnitPlan& units = plan_->units();
  const std::size_t first = units.place_in_server[unit];
  return std::span(units.of_server[static_cast<std::size_t>(units.units[unit].server.value)])
      .subspan(first, units.place_in_server[last] - first + 1);
}

std::int64_t VirtualCluster::bytes_between(std::uint32_t unit, std::uint32_t last) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t one : units_between(unit, last)) bytes += static_cast<std::int64_t>(plan_->payload_bytes(one));
  return bytes;
}

// --- workers ---

void VirtualCluster::send_actions(std::int32_t worker) {
  for (const paramserver::WorkerAction& action : std::exchange(actions_, {})) {
    const scheduling::Unit& unit = plan_->units().units[action.unit];
    Message message{.kind = Kind::kPull,
                    .worker = worker,
                    .server = unit.server.value,
                    .unit = action.unit,
                    .detail = action.detail,
                    .iteration = action.iteration};
    if (action.kind != paramserver::WorkerAction::Kind::kPull) {
      message.kind = Kind::kPush;
      if (action.kind == paramserver::WorkerAction::Kind::kPush) message.detail = action.unit;  // all parts are used
      message.bytes = std::llround(static_cast<double>(bytes_between(message.unit, message.detail)) * job_.pushed);
    }
    send(message, node_of_worker(worker), node_of_server(unit.server.value));
  }
}

// Starts what the worker may compute next.
void VirtualCluster::go_on(std::int32_t rank) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  if (worker.computing || worker.gates->current() > kIterations) return;
  double seconds = 0;
  if (worker.phase == Worker::Phase::kForward && worker.layer < layers()) {
    if (!worker.gates->open(Layer{worker.layer}, worker.gates->current())) return;
    seconds = job_.forward[static_cast<std::size_t>(worker.layer)];
  } else {
    if (worker.phase == Worker::Phase::kForward) {
      if (!worker.gates->free()) return;
      worker.phase = Worker::Phase::kBackward;
    }
    seconds = job_.backward[static_cast<std::size_t>(worker.layer - 1)];
  }
  worker.computing = true;
  at(now_ + nanoseconds(seconds), Event::Kind::kComputed, static_cast<std::uint32_t>(rank));
}

void VirtualCluster::on_computed(std::int32_t rank) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  worker.computing = false;
  if (worker.phase == Worker::Phase::kForward) {
    ++worker.layer;
    return go_on(rank);
  }
  --worker.layer;
  const auto& tensors = tensors_[static_cast<std::size_t>(worker.layer)];
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    complete_.clear();
    expect(worker.gates->on_gradient(*tensor, complete_));
    worker.core.on_complete(complete_, now(), actions_);
  }
  if (worker.layer == 0) {
    complete_.clear();
    expect(worker.gates->on_backward_done(worker.gates->current(), {}, complete_));
    worker.core.on_complete(complete_, now(), actions_);
    worker.core.on_backward_done(now(), actions_);
    worker.gates->next_iteration();
    worker.phase = Worker::Phase::kForward;
    if (rank == 0) ends_.push_back({now_, sent_messages_});
  }
  send_actions(rank);
  go_on(rank);
}

}  // namespace paceline::prediction
