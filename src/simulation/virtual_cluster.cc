#include "simulation/virtual_cluster.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "tensor/exact_square_sum.h"

namespace paceline::simulation {
namespace {

// Here nobody makes a mistake that a ledger could refuse.
void expect(const Status& status) { PACELINE_CHECK(status.ok(), "{}", status.message()); }

bool comes_from_worker(wire::Channel channel) { return channel == wire::Channel::kGradients; }
bool goes_to_worker(wire::Channel channel) { return channel == wire::Channel::kValues || channel == wire::Channel::kPace; }

struct Pushed {
  std::uint32_t unit = 0, last = 0;
  Iteration iteration = 0;
};
std::optional<Pushed> pushed_by(const wire::Message& message) {
  if (const auto* push = std::get_if<wire::Push>(&message)) return Pushed{push->unit, push->unit, push->iteration};
  if (const auto* pushes = std::get_if<wire::Pushes>(&message)) return Pushed{pushes->unit, pushes->last, pushes->iteration};
  return std::nullopt;
}

}  // namespace

VirtualCluster::VirtualCluster(std::shared_ptr<const job::Plan> plan, const Job& job, const Cluster& cluster,
                               const std::vector<VirtualNetwork::Link>& links)
    : plan_(std::move(plan)),
      job_(job),
      cluster_(cluster),
      tensors_(static_cast<std::size_t>(plan_->layers())),
      network_(links, plan_->egress_rules(),
               {.start_up = cluster.start_up, .processing = cluster.processing, .cards = static_cast<std::size_t>(cluster.cards)},
               *this) {
  for (std::uint32_t tensor = 0; tensor < job.table.tensors.size(); ++tensor)
    tensors_[static_cast<std::size_t>(job.table.tensors[tensor].layer.index)].push_back(tensor);
  workers_.reserve(static_cast<std::size_t>(cluster.workers));
  for (std::int32_t rank = 0; rank < cluster.workers; ++rank) workers_.emplace_back(plan_, Rank{rank});
  servers_.reserve(static_cast<std::size_t>(cluster.servers));
  for (std::int32_t rank = 0; rank < cluster.servers; ++rank) {
    auto ledger = paramserver::ServerLedger::make(plan_, Rank{rank});
    PACELINE_CHECK(ledger.ok(), "{}", ledger.status().message());
    servers_.emplace_back(std::move(*ledger), scheduling::ingress_order(plan_->options().schedule));
  }
  give_initial_values();
}

// Everybody has them when the first iteration begins, and the first mini-batch.
void VirtualCluster::give_initial_values() {
  const Iteration before = plan_->options().first - 1;
  for (Server& server : servers_) {
    for (const std::uint32_t unit : server.ledger.books().units()) {
      const auto bytes = static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float);
      const wire::Initial initial{unit, before};
      expect(server.ledger.on_begin(Rank{0}, initial, bytes));
      expect(server.ledger.on(Rank{0}, initial, now(), effects_));
      for (const paramserver::ServerEffect& effect : effects_) {
        const auto& [to, kept, message] = std::get<paramserver::Send>(effect);
        if (const auto* handed_out = std::get_if<wire::MiniBatch>(&message)) worker(to).handed_out.push_back(handed_out->number);
      }
      effects_.clear();
    }
  }
  for (Worker& worker : workers_) {
    for (const scheduling::Unit& unit : plan_->units().units) {
      if (worker.core.rank() == Rank{0}) {
        worker.core.on_initial_received(unit.id);
        continue;
      }
      const wire::Value value{.unit = unit.id, .iteration = before};
      expect(worker.core.on_begin(unit.server, value, plan_->value_bytes(unit.id, before), now()).status());
      expect(worker.core.on(unit.server, value, now(), sends_));
    }
  }
}

void VirtualCluster::set_batches(std::int32_t rank, const scheduling::Bounds& bounds) {
  worker(Rank{rank}).core.set_batches(bounds);
}

void VirtualCluster::set_push_batches(std::int32_t rank, const scheduling::Bounds& bounds) {
  worker(Rank{rank}).core.set_push_batches(bounds);
}

// --- runs ---

template <typename Reached>
void VirtualCluster::step_until(const Reached& reached) {
  for (Worker& worker : workers_) go_on(worker);
  while (!reached()) PACELINE_CHECK(network_.step(), "a predicted job stands still");
}

// Between the ends of two iterations.
VirtualCluster::Pace VirtualCluster::pace_between(Iteration from, Iteration to) const {
  const Mark &first = marks_[static_cast<std::size_t>(from - 1)], &last = marks_[static_cast<std::size_t>(to - 1)];
  const auto counted = static_cast<double>(to - from);
  return {.iteration = static_cast<double>(last.time - first.time) / 1e9 / counted,
          .messages = static_cast<double>(last.sent - first.sent) / counted};
}

bool VirtualCluster::settled_between(Iteration from, Iteration to) const {
  constexpr double kEqual = 0.005;  // of the longest
  double shortest = std::numeric_limits<double>::infinity(), longest = 0;
  for (Iteration iteration = from; iteration < to; ++iteration) {
    const double took = pace_between(iteration, iteration + 1).iteration;
    shortest = std::min(shortest, took);
    longest = std::max(longest, took);
  }
  return longest - shortest <= kEqual * longest;
}

VirtualCluster::Pace VirtualCluster::run(const Horizon& horizon) {
  last_ = horizon.iterations;
  step_until([&] { return iterations_ended_ >= last_ * cluster_.workers; });
  Pace pace = pace_between(horizon.warm_up, last_);
  if (plan_->uneven()) pace = {.iteration = mean_iteration(horizon), .messages = pace.messages};
  return pace;
}

VirtualCluster::Pace VirtualCluster::run_until_settled(Iteration most) {
  constexpr Iteration kCounted = 3;
  last_ = most;
  for (Iteration ended = kCounted + 1; ended <= most; ++ended) {
    step_until([&] { return static_cast<Iteration>(marks_.size()) >= ended; });
    if (settled_between(ended - kCounted, ended)) return pace_between(ended - kCounted, ended);
  }
  return pace_between(most / 2, most);
}

double VirtualCluster::run_to_the_end(Iteration iterations) {
  last_ = iterations;
  to_the_end_ = true;
  step_until([&] { return workers_done_ >= cluster_.workers; });
  return static_cast<double>(network_.now()) / 1e9;
}

// What all workers together do in an iteration of each, of the pace that each has between its own ends behind the warm-up: one that
// ends few iterations would count too much or too little by the moment at which all stop.
double VirtualCluster::mean_iteration(const Horizon& horizon) const {
  const std::int64_t from = marks_[static_cast<std::size_t>(horizon.warm_up - 1)].time;
  double per_nanosecond = 0;
  for (const Worker& worker : workers_) {
    const auto first = std::ranges::lower_bound(worker.ends, from);
    const auto intervals = worker.ends.end() - first - 1;
    if (intervals > 0)
      per_nanosecond += static_cast<double>(intervals) / static_cast<double>(worker.ends.back() - *first);
    else if (intervals == 0)
      per_nanosecond += 1 / static_cast<double>(network_.now() - from);
  }
  return static_cast<double>(cluster_.workers) / per_nanosecond / 1e9;
}

// --- messages ---

std::uint32_t VirtualCluster::node_of_server(Rank rank) const {
  return static_cast<std::uint32_t>(cluster_.layout == Cluster::Layout::kShared ? rank.value : cluster_.workers + rank.value);
}

void VirtualCluster::send(const Parcel& parcel) {
  const wire::Channel channel = channel_of(parcel.message);
  const auto from = comes_from_worker(channel) ? static_cast<std::uint32_t>(parcel.from.value) : node_of_server(parcel.from);
  const auto to = goes_to_worker(channel) ? static_cast<std::uint32_t>(parcel.to.value) : node_of_server(parcel.to);
  const auto unit = wire::unit_of(parcel.message);
  network_.send(parcel, from, to, wire::head_of(parcel.message, unit ? plan_->units().units[*unit].layer : wire::kControlLayer));
}

// A push is dealt with as a whole when its turn has come.
void VirtualCluster::on_begin(const Parcel& parcel) {
  if (!goes_to_worker(channel_of(parcel.message))) return;
  using Place = Result<paramserver::PushLedger::Place>;
  const auto place = wire::deliver_begin<Place>(worker(parcel.to).core, parcel.from, parcel.message,
                                                static_cast<std::uint64_t>(parcel.bytes), now());
  if (place) expect(place->status());
}

void VirtualCluster::on_parcel(const Parcel& parcel) {
  if (goes_to_worker(channel_of(parcel.message)))
    on_message(worker(parcel.to), parcel);
  else
    on_message(server(parcel.to), parcel);
}

void VirtualCluster::on_woken(std::uint32_t sleeper) {
  if (sleeper < workers_.size())
    on_computed(workers_[sleeper]);
  else
    on_worked(servers_[sleeper - workers_.size()]);
}

std::int64_t VirtualCluster::bytes_between(std::uint32_t unit, std::uint32_t last) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t one : plan_->units().between(unit, last)) bytes += static_cast<std::int64_t>(plan_->payload_bytes(one));
  return bytes;
}

std::int64_t VirtualCluster::payload_bytes(const wire::Message& message) const {
  if (const auto pushed = pushed_by(message))
    return std::llround(static_cast<double>(bytes_between(pushed->unit, pushed->last)) * job_.pushed);
  if (const auto* value = std::get_if<wire::Value>(&message)) return bytes_between(value->unit, value->unit);
  if (const auto* values = std::get_if<wire::Values>(&message)) return bytes_between(values->unit, values->last);
  return std::holds_alternative<wire::SquareSum>(message) ? static_cast<std::int64_t>(tensor::kSquareSumBytes) : 0;
}

// --- servers ---

void VirtualCluster::on_message(Server& to, const Parcel& parcel) {
  if (const auto pushed = pushed_by(parcel.message)) {
    Worker& from = worker(parcel.from);
    from.core.on_push_delivered(pushed->unit, now(), sends_);
    send_all(from);
    to.waiting.on_arrived(plan_->units().units[pushed->unit].layer, parcel);
    work_on_next(to);
    return go_on(from);
  }
  expect(wire::deliver(to.ledger, parcel.from, parcel.message, now(), effects_).value());
  settle(to);
}

void VirtualCluster::work_on_next(Server& of) {
  if (of.working) return;
  const auto next = of.waiting.take();
  if (!next) return;
  of.working = true;
  of.working_on = *next;
  network_.wake(static_cast<std::uint32_t>(cluster_.workers + of.ledger.books().server().value),
                static_cast<double>(next->bytes) * cluster_.aggregation);
}

void VirtualCluster::on_worked(Server& of) {
  const Parcel parcel = of.working_on;
  const Pushed pushed = pushed_by(parcel.message).value();
  of.working = false;
  for (const std::uint32_t unit : plan_->units().between(pushed.unit, pushed.last)) {
    const wire::Push push{.unit = unit, .iteration = pushed.iteration};
    expect(of.ledger.on_begin(parcel.from, push, plan_->payload_bytes(unit)));
    expect(of.ledger.on(parcel.from, push, now(), effects_));
    settle(of);
  }
  work_on_next(of);
}

// Makes what is due after an event, sends what follows, and answers where the next barrier is.
void VirtualCluster::settle(Server& of) {
  while (const auto update = of.ledger.next()) of.ledger.on_updated(*update, now(), effects_);
  send_effects(of.ledger);
  if (!of.ledger.paces()) return;
  while (const auto question = of.ledger.take_question()) set_barriers(of, *question);
}

// The other effects are of numbers, which nobody has here.
void VirtualCluster::send_effects(const paramserver::ServerLedger& ledger) {
  for (const paramserver::ServerEffect& effect : effects_) {
    if (const auto* leaving = std::get_if<paramserver::Send>(&effect))
      send({ledger.books().server(), leaving->to, leaving->message, payload_bytes(leaving->message)});
  }
  effects_.clear();
}

void VirtualCluster::set_barriers(Server& of, const sync::BarrierQuestion& question) {
  const std::vector<Iteration> barriers = sync::answer(question);
  const Rank self = of.ledger.books().server();
  for (std::size_t i = 0; i < barriers.size(); ++i) {
    const wire::Barrier barrier{static_cast<std::uint32_t>(question.workers[i].value), barriers[i]};
    for (const Server& other : servers_) {
      if (&other == &of || other.ledger.books().units().empty()) continue;
      send({.from = self, .to = other.ledger.books().server(), .message = barrier});
    }
    expect(of.ledger.on(self, barrier, now(), effects_));
    while (const auto update = of.ledger.next()) of.ledger.on_updated(*update, now(), effects_);
    send_effects(of.ledger);
  }
}

}  // namespace paceline::simulation
