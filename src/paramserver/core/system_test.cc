// Whole jobs - server and worker cores, a bag of messages that arrive in any order, in pieces - stepped in virtual time from a
// seed, and compared with the plain computation bit by bit.
#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "paramserver/core/server_core.h"
#include "paramserver/core/testing.h"
#include "paramserver/core/worker_core.h"

namespace paceline::paramserver {
namespace {

using testing::Reference;
using testing::same_bits;

struct Case {
  std::uint64_t seed = 0;
  JobOptions options;
  wire::TensorTable table;
  Iteration iterations = 3;
  unsigned unused_per_cent = 0;
  bool zero_initial = false;
  // With a model other than BSP: a worker's step is taken with a chance of one in `slowness[worker]`.
  std::vector<unsigned> slowness = {};
  // Overrides the gradient.
  std::function<float(std::int32_t worker, Iteration iteration, std::int64_t index)> gradient;
};

// A message on its way: begins, is complete, is acknowledged; each at a random moment.
struct Message {
  enum class Kind { kInitial, kPush, kPushes, kPull, kValue, kNotify, kSquareSum, kMiniBatch, kDone, kBarrier } kind = Kind::kPush;
  std::int32_t from = 0, to = 0;
  std::uint32_t unit = 0, detail = 0;  // detail: unused parts of a push, else the last unit
  Iteration iteration = 0;
  std::span<const std::byte> payload;
  std::uint64_t ticket = 0;
  enum class State { kSent, kBegun, kReceived } state = State::kSent;
  std::span<std::byte> place;
  std::vector<float>* arena = nullptr;       // of a value: where it belongs
  std::vector<std::span<std::byte>> places;  // of several gradients
};

class System final : private PaceObserver {
 public:
  explicit System(const Case& job)
      : job_(job),
        random_(job.seed),
        plan_(*JobPlan::make(job.table, job.options)),
        elements_(static_cast<std::size_t>(plan_->units().elements)) {
    for (std::int32_t s = 0; s < job.options.servers; ++s) {
      sync::SyncCluster cluster;
      cluster.units = static_cast<std::int32_t>(plan_->units().of_server[static_cast<std::size_t>(s)].size());
      for (std::int32_t w = 0; w < job.options.workers; ++w) cluster.workers.push_back(Rank{w});
      cluster.first = job.options.first;
      servers_.push_back(std::make_unique<ServerCore>(plan_, Rank{s}, *sync::make_sync_model(job.options.sync, cluster)));
    }
    servers_[static_cast<std::size_t>(plan_->pacing_server().value)]->observe(*this);
    for (std::int32_t w = 0; w < job.options.workers; ++w) {
      workers_.push_back(std::make_unique<Worker>(plan_, Rank{w}, elements_));
      if (job.options.schedule.back == scheduling::Return::kPullInBatches) workers_.back()->core.set_batches(random_batches());
      if (job.options.schedule.push == scheduling::PushWhen::kInBatches) workers_.back()->core.set_push_batches(random_batches());
    }
    auto initial = testing::initial_values(job.seed, plan_->units().elements);
    if (job.zero_initial) std::ranges::fill(initial, 0.0F);
    workers_[0]->parameters = initial;
    history_.push_back(initial);
  }

  // Runs to the end; afterwards every worker has waited for the last values.
  void run() {
    for (const scheduling::Unit& unit : plan_->units().units) {
      post({Message::Kind::kInitial, 0, unit.server.value, unit.id, unit.id, job_.options.first - 1,
            bytes_of(workers_[0]->parameters, unit.id), unit.id});
    }
    const std::int64_t limit = 1000 + 200 * job_.iterations * static_cast<std::int64_t>(plan_->units().units.size() + 5) *
                                          job_.options.workers * (1 + job_.options.servers);
    for (std::int64_t steps = 0; !finished(); ++steps) {
      ASSERT_LT(steps, limit) << "the job hangs";
      now_ += std::chrono::microseconds(1);
      if (!messages_.empty() && random_() % 3 != 0) {
        step_message(random_() % messages_.size());
      } else {
        step_worker(*workers_[random_() % workers_.size()]);
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    while (!messages_.empty()) step_message(random_() % messages_.size());
  }

  struct Worker {
    Worker(const std::shared_ptr<const JobPlan>& plan, Rank rank, std::size_t elements)
        : core(plan, rank), parameters(elements), staging(elements), gradients(elements) {}
    WorkerCore core;
    std::vector<float> parameters, staging, gradients, seen;
    enum class Phase { kForward, kBackward, kFinishing, kDone } phase = Phase::kForward;
    std::deque<std::int64_t> handed_out;     // and not begun
    std::vector<std::int64_t> mini_batches;  // done
    std::map<Iteration, std::vector<float>> began_with;
    std::int32_t next_layer = 0;               // forward
    std::vector<std::uint32_t> order, unused;  // backward: tensors to come
  };

  const JobPlan& plan() const { return *plan_; }
  ServerCore& server(std::size_t s) { return *servers_[s]; }
  Worker& worker(std::size_t w) { return *workers_[w]; }
  // The parameters after every iteration, as the reference has them (BSP).
  std::vector<std::vector<float>> history_;
  std::vector<Iteration> completed;  // by kIterationComplete of server 0
  std::vector<Status> stops, skips;
  std::int64_t largest_lead = 0, largest_staleness = 0;
  std::vector<sync::Superstep> supersteps;
  std::int64_t batched_values = 0;  // messages with values of several units
  std::int64_t batched_pushes = 0;  // messages with gradients of several units

 private:
  void on_started(Rank, Iteration, std::int64_t staleness, TimePoint) override {
    largest_staleness = std::max(largest_staleness, staleness);
  }
  void on_ended(Rank, Iteration, TimePoint) override {}
  void on_superstep(const sync::Superstep& superstep) override { supersteps.push_back(superstep); }

  // Other ones for every worker: what is asked for together is its own affair.
  scheduling::Bounds random_batches() {
    scheduling::Bounds bounds;
    for (std::int32_t layer = 1; layer < plan_->layers(); ++layer) {
      if (random_() % 3 == 0) bounds.push_back(layer);
    }
    bounds.push_back(plan_->layers());
    return bounds;
  }
  bool finished() const {
    return !stops.empty() || std::ranges::all_of(workers_, [](const auto& w) { return w->phase == Worker::Phase::kDone; });
  }
  Iteration last() const { return job_.options.first + job_.iterations - 1; }

  template <typename Arena>
  std::span<const std::byte> bytes_of(const Arena& arena, std::uint32_t unit) const {
    const auto& planned = plan_->units().units[unit];
    return std::as_bytes(std::span<const float>(arena).subspan(static_cast<std::size_t>(planned.offset),
                                                               static_cast<std::size_t>(planned.elements)));
  }
  std::span<std::byte> place_of(std::vector<float>& arena, std::uint32_t unit) {
    const auto& planned = plan_->units().units[unit];
    return std::as_writable_bytes(
        std::span<float>(arena).subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements)));
  }
  void post(Message message) { messages_.push_back(message); }

  // --- workers ---

  void step_worker(Worker& worker) {
    const auto rank = static_cast<std::size_t>(worker.core.rank().value);
    if (!job_.slowness.empty() && random_() % job_.slowness[rank] != 0) return;
    switch (worker.phase) {
      case Worker::Phase::kForward:
        return step_forward(worker);
      case Worker::Phase::kBackward:
        return step_backward(worker);
      case Worker::Phase::kFinishing:
        if (!worker.core.all_open(worker.core.current())) return;
        copy_staged(worker, worker.core.units_of(std::nullopt));
        worker.phase = Worker::Phase::kDone;
        return;
      case Worker::Phase::kDone:
        return;
    }
  }

  // Whether the worker may go on with its next mini-batch; the last one to be handed out has the number of all there are.
  bool takes_mini_batch(Worker& worker) {
    if (worker.handed_out.empty()) return false;
    if (worker.handed_out.front() > job_.iterations * job_.options.workers) {
      if (!worker.core.all_open(worker.core.current())) return false;
      copy_staged(worker, worker.core.units_of(std::nullopt));
      const Iteration last = worker.core.current() - 1;
      worker.core.on_finished();
      for (std::int32_t server = 0; server < job_.options.servers; ++server) {
        if (plan_->units().of_server[static_cast<std::size_t>(server)].empty()) continue;
        post({.kind = Message::Kind::kDone, .from = worker.core.rank().value, .to = server, .iteration = last});
      }
      worker.phase = Worker::Phase::kFinishing;
      return false;
    }
    worker.mini_batches.push_back(worker.handed_out.front());
    worker.handed_out.pop_front();
    return true;
  }

  void copy_staged(Worker& worker, scheduling::UnitRange units) {
    while (const auto unit = worker.core.take_staged(units))
      std::ranges::copy(bytes_of(worker.staging, *unit), place_of(worker.parameters, *unit).begin());
  }

  void step_forward(Worker& worker) {
    const Iteration iteration = worker.core.current();
    const std::int32_t rank = worker.core.rank().value;
    if (plan_->uneven() && worker.next_layer == 0 && static_cast<Iteration>(worker.mini_batches.size()) < iteration &&
        !takes_mini_batch(worker))
      return;
    if (!plan_->uneven() && iteration > last()) {
      if (!worker.core.all_open(iteration)) return;
      copy_staged(worker, worker.core.units_of(std::nullopt));
      worker.phase = Worker::Phase::kDone;
      return;
    }
    const Layer layer{worker.next_layer};
    if (layer.index < plan_->layers()) {
      // A layer none of whose tensors is used is not run: its gate is not passed.
      if (used_in(layer, rank, iteration)) {
        if (!worker.core.layer_open(layer, iteration)) return;
        copy_staged(worker, worker.core.units_of(layer));
        check_values(worker, layer, iteration);
      }
      ++worker.next_layer;
      return;
    }
    if (!worker.core.gradients_free()) return;
    for (const auto& other : workers_) {
      if (other->phase == Worker::Phase::kFinishing || other->phase == Worker::Phase::kDone) continue;
      const bool all_pushed =
          other->phase == Worker::Phase::kBackward &&
          std::ranges::all_of(other->order, [&](std::uint32_t tensor) { return job_.table.tensors[tensor].elements() == 0; });
      largest_lead = std::max(largest_lead, iteration - other->core.current() - (all_pushed ? 1 : 0));
    }
    worker.seen = worker.parameters;
    if (job_.options.sync.kind == sync::SyncKind::kElasticBsp) worker.began_with[iteration] = worker.parameters;
    worker.order.clear();
    worker.unused.clear();
    for (std::uint32_t tensor = 0; tensor < job_.table.tensors.size(); ++tensor) {
      (testing::is_unused(job_.seed, rank, iteration, tensor, job_.unused_per_cent) ? worker.unused : worker.order)
          .push_back(tensor);
    }
    std::ranges::shuffle(worker.order, random_);
    for (std::size_t i = 0; i < elements_; ++i) worker.gradients[i] = gradient(rank, iteration, static_cast<std::int64_t>(i));
    worker.phase = Worker::Phase::kBackward;
  }

  bool used_in(Layer layer, std::int32_t rank, Iteration iteration) const {
    for (std::uint32_t tensor = 0; tensor < job_.table.tensors.size(); ++tensor) {
      if (job_.table.tensors[tensor].layer == layer &&
          !testing::is_unused(job_.seed, rank, iteration, tensor, job_.unused_per_cent))
        return true;
    }
    return false;
  }

  // In BSP the layer's parameters are those after the iteration before.
  void check_values(const Worker& worker, Layer layer, Iteration iteration) {
    if (job_.options.sync.kind != sync::SyncKind::kBsp) return;
    const auto& expected = parameters_after(iteration - 1);
    const scheduling::UnitRange units = plan_->units().of_layer[static_cast<std::size_t>(layer.index)];
    for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
      ASSERT_TRUE(same_bits(bytes_of(worker.parameters, unit), bytes_of(expected, unit)))
          << "seed " << job_.seed << ": worker " << worker.core.rank().value << " runs layer " << layer.index << " of iteration "
          << iteration << " with other values";
    }
  }

  const std::vector<float>& parameters_after(Iteration iteration) {
    const auto index = static_cast<std::size_t>(iteration - (job_.options.first - 1));
    if (!reference_) reference_ = std::make_unique<Reference>(job_.table, job_.options.update, history_[0]);
    while (history_.size() <= index) {
      const Iteration next = job_.options.first - 1 + static_cast<Iteration>(history_.size());
      std::vector<std::vector<float>> gradients;
      std::vector<std::vector<bool>> unused;
      for (std::int32_t w = 0; w < job_.options.workers; ++w) {
        gradients.emplace_back();
        for (std::size_t i = 0; i < elements_; ++i) gradients.back().push_back(gradient(w, next, static_cast<std::int64_t>(i)));
        unused.emplace_back();
        for (std::uint32_t t = 0; t < job_.table.tensors.size(); ++t)
          unused.back().push_back(testing::is_unused(job_.seed, w, next, t, job_.unused_per_cent));
      }
      reference_->train(next, gradients, unused);
      history_.push_back(reference_->parameters);
    }
    return history_[index];
  }

  float gradient(std::int32_t worker, Iteration iteration, std::int64_t index) const {
    return job_.gradient ? job_.gradient(worker, iteration, index) : testing::gradient_element(job_.seed, worker, iteration, index);
  }

  void step_backward(Worker& worker) {
    const Iteration iteration = worker.core.current();
    if (!worker.order.empty()) {
      const Status status = worker.core.on_gradient_ready(worker.order.back(), now_, worker_actions_);
      ASSERT_TRUE(status.ok()) << status.message();
      worker.order.pop_back();
    } else {
      if (!worker.core.all_open(iteration)) return;
      // Backward may read all parameters until now.
      for (std::int32_t layer = 0; layer < plan_->layers(); ++layer) {
        if (!used_in(Layer{layer}, worker.core.rank().value, iteration)) continue;
        const scheduling::UnitRange units = plan_->units().of_layer[static_cast<std::size_t>(layer)];
        for (std::uint32_t unit = units.begin; unit < units.end; ++unit) {
          ASSERT_TRUE(same_bits(bytes_of(worker.parameters, unit), bytes_of(worker.seen, unit)))
              << "seed " << job_.seed << ": parameters changed under backward";
        }
      }
      const Status status = worker.core.on_backward_done(iteration, worker.unused, now_, worker_actions_);
      ASSERT_TRUE(status.ok()) << status.message();
      worker.phase = Worker::Phase::kForward;
      worker.next_layer = 0;
    }
    send_worker_actions(worker);
  }

  void send_worker_actions(Worker& worker) {
    for (const WorkerAction& action : worker_actions_) {
      Message message{Message::Kind::kPull,
                      worker.core.rank().value,
                      plan_->units().units[action.unit].server.value,
                      action.unit,
                      action.detail,
                      action.iteration,
                      {},
                      action.unit};
      if (action.kind == WorkerAction::Kind::kPush) {
        message.kind = Message::Kind::kPush;
        if (action.detail != scheduling::all_parts(plan_->units().units[action.unit]))
          message.payload = bytes_of(worker.gradients, action.unit);
      } else if (action.kind == WorkerAction::Kind::kPushBatch) {
        message.kind = Message::Kind::kPushes;
        message.payload = bytes_of(worker.gradients, action.unit);  // of the first unit; receiving takes the others' too
        ++batched_pushes;
      }
      post(message);
    }
    worker_actions_.clear();
  }

  // --- messages ---

  // Messages overtake each other, but not those of the same session that are in one layer.
  std::size_t earliest_like(std::size_t index) const {
    const Message& chosen = messages_[index];
    if (chosen.kind != Message::Kind::kMiniBatch && chosen.kind != Message::Kind::kBarrier) return index;
    const auto first = std::ranges::find_if(messages_, [&](const Message& other) {
      return other.kind == chosen.kind && other.from == chosen.from && other.to == chosen.to;
    });
    return static_cast<std::size_t>(first - messages_.begin());
  }

  void step_message(std::size_t chosen) {
    const std::size_t index = earliest_like(chosen);
    Message& message = messages_[index];
    if (message.state == Message::State::kSent) {
      message.state = Message::State::kBegun;
      if (!message.payload.empty()) begin(message);
      return;
    }
    if (message.state == Message::State::kBegun) {
      message.state = Message::State::kReceived;
      if (message.arena != nullptr) {
        deal_out(message);
      } else if (message.kind == Message::Kind::kPushes) {
        deal_out_gradients(message);
      } else {
        std::ranges::copy(message.payload, message.place.begin());
      }
      const Message received = message;
      receive(received);
      return;
    }
    const Message done = message;
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(index));
    if ((done.kind == Message::Kind::kPush || done.kind == Message::Kind::kPushes) && !done.payload.empty())
      workers_[static_cast<std::size_t>(done.from)]->core.on_push_delivered(done.unit, now_);
    if (done.kind == Message::Kind::kInitial) workers_[static_cast<std::size_t>(done.from)]->core.on_initial_received(done.unit);
    if (done.kind == Message::Kind::kValue) servers_[static_cast<std::size_t>(done.from)]->on_delivered(Rank{done.to}, done.ticket);
  }

  void begin(Message& message) {
    const auto to = static_cast<std::size_t>(message.to);
    Result<std::span<float>> place = std::span<float>();
    switch (message.kind) {
      case Message::Kind::kInitial:
        place = servers_[to]->place_for_initial(Rank{message.from}, message.unit, message.iteration, message.payload.size());
        break;
      case Message::Kind::kPush:
        place = servers_[to]->place_for_push(Rank{message.from}, message.unit, message.iteration, message.payload.size());
        break;
      case Message::Kind::kPushes:
        return begin_gradients(message);
      case Message::Kind::kSquareSum:
        square_places_.emplace_back();
        message.place = square_places_.back();
        return;
      default: {
        Worker& worker = *workers_[to];
        const auto where = worker.core.on_value_begin(Rank{message.from}, values_of(message), message.payload.size(), now_);
        ASSERT_TRUE(where.ok()) << "seed " << job_.seed << ": " << where.status().message();
        message.arena = *where == WorkerCore::Place::kStaging ? &worker.staging : &worker.parameters;
        return;
      }
    }
    ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
    message.place = std::as_writable_bytes(*place);
  }

  std::span<const std::uint32_t> pushed_units(const Message& message) const {
    return workers_[static_cast<std::size_t>(message.from)]->core.units_between(message.unit, message.detail);
  }

  void begin_gradients(Message& message) {
    for (const std::uint32_t unit : pushed_units(message)) {
      const auto place = servers_[static_cast<std::size_t>(message.to)]->place_for_push(
          Rank{message.from}, unit, message.iteration,
          static_cast<std::uint64_t>(plan_->units().units[unit].elements) * sizeof(float));
      ASSERT_TRUE(place.ok()) << "seed " << job_.seed << ": " << place.status().message();
      message.places.push_back(std::as_writable_bytes(*place));
    }
  }

  void deal_out_gradients(const Message& message) {
    const auto units = pushed_units(message);
    for (std::size_t i = 0; i < units.size(); ++i)
      std::ranges::copy(bytes_of(workers_[static_cast<std::size_t>(message.from)]->gradients, units[i]), message.places[i].begin());
  }

  static WorkerCore::Values values_of(const Message& message) { return {message.unit, message.detail, message.iteration}; }

  void deal_out(const Message& message) {
    auto rest = message.payload;
    for (const std::uint32_t unit : workers_[static_cast<std::size_t>(message.to)]->core.units_of(values_of(message))) {
      const auto place = place_of(*message.arena, unit);
      std::ranges::copy(rest.first(place.size()), place.begin());
      rest = rest.subspan(place.size());
    }
    if (message.detail != message.unit) ++batched_values;
  }

  void receive(const Message& message) {
    Status status;
    if (message.kind == Message::Kind::kValue || message.kind == Message::Kind::kNotify) {
      Worker& worker = *workers_[static_cast<std::size_t>(message.to)];
      status = message.kind == Message::Kind::kNotify
                   ? worker.core.on_notify(Rank{message.from}, message.unit, message.iteration, worker_actions_)
                   : worker.core.on_value(Rank{message.from}, values_of(message), 1, now_, worker_actions_);
      ASSERT_TRUE(status.ok()) << status.message();
      return send_worker_actions(worker);
    }
    if (message.kind == Message::Kind::kMiniBatch)
      return workers_[static_cast<std::size_t>(message.to)]->handed_out.push_back(message.iteration);
    ServerCore& server = *servers_[static_cast<std::size_t>(message.to)];
    const Rank from{message.from};
    switch (message.kind) {
      case Message::Kind::kInitial:
        status = server.on_initial(from, message.unit, message.iteration, now_, actions_);
        break;
      case Message::Kind::kPush:
        status = server.on_push(from, message.unit, message.iteration, message.detail, now_, actions_);
        break;
      case Message::Kind::kPushes:
        for (const std::uint32_t unit : pushed_units(message)) {
          status = server.on_push(from, unit, message.iteration, 0, now_, actions_);
          if (!status.ok()) break;
        }
        break;
      case Message::Kind::kDone:
        status = server.on_done(from, message.iteration, now_, actions_);
        break;
      case Message::Kind::kBarrier:
        status = server.on_barrier(Rank{static_cast<std::int32_t>(message.unit)}, message.iteration, now_, actions_);
        break;
      case Message::Kind::kPull:
        status = server.on_pull(from, message.unit, message.detail, message.iteration, actions_);
        break;
      default:
        status = server.on_square_sum(from, message.iteration, message.place, actions_);
        break;
    }
    ASSERT_TRUE(status.ok()) << "seed " << job_.seed << ": " << status.message();
    for (const ServerAction& action : actions_) carry_out(server, action);
    actions_.clear();
    if (server.paces()) {
      if (const auto question = server.take_question()) tell_barriers(*question);
    }
  }

  // Every server hears of it at some moment of its own; what one server hears is in order.
  void tell_barriers(const sync::BarrierQuestion& question) {
    const auto barriers = sync::answer(question);
    for (std::size_t i = 0; i < barriers.size(); ++i) {
      for (std::int32_t server = 0; server < job_.options.servers; ++server) {
        if (plan_->units().of_server[static_cast<std::size_t>(server)].empty()) continue;
        post({.kind = Message::Kind::kBarrier,
              .to = server,
              .unit = static_cast<std::uint32_t>(question.workers[i].value),
              .iteration = barriers[i]});
      }
    }
  }

  void carry_out(const ServerCore& server, const ServerAction& action) {
    switch (action.kind) {
      case ServerAction::Kind::kSendValue:
      case ServerAction::Kind::kSendValues:
        return post({Message::Kind::kValue, server.rank().value, action.to.value, action.unit, action.last, action.iteration,
                     action.payload, action.ticket});
      case ServerAction::Kind::kNotify:
        ASSERT_TRUE(action.payload.empty());
        return post({Message::Kind::kNotify, server.rank().value, action.to.value, action.unit, action.last, action.iteration});
      case ServerAction::Kind::kSendSquareSum:
        return post({Message::Kind::kSquareSum, server.rank().value, action.to.value, 0, 0, action.iteration, action.payload,
                     action.ticket});
      case ServerAction::Kind::kIterationComplete:
        for (std::uint32_t part = 0; part < plan_->units().parts.size(); ++part) {
          const scheduling::Part& planned = plan_->units().parts[part];
          if (plan_->units().units[planned.unit].server != server.rank()) continue;
          const auto saved = server.export_part(part);
          ASSERT_EQ(saved.version, action.iteration);
          const std::span<const float> expected(parameters_after(action.iteration));
          ASSERT_TRUE(same_bits(
              saved.value, expected.subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements))))
              << "seed " << job_.seed;
        }
        if (server.rank() == Rank{0}) completed.push_back(action.iteration);
        return;
      case ServerAction::Kind::kMiniBatch:
        return post({.kind = Message::Kind::kMiniBatch,
                     .from = server.rank().value,
                     .to = action.to.value,
                     .unit = action.unit,
                     .iteration = action.iteration});
      case ServerAction::Kind::kSkipped:
        return skips.push_back(action.failure);
      case ServerAction::Kind::kStop:
        return stops.push_back(action.failure);
    }
  }

  Case job_;
  std::mt19937_64 random_;
  std::shared_ptr<const JobPlan> plan_;
  std::size_t elements_;
  TimePoint now_{};
  std::vector<std::unique_ptr<ServerCore>> servers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Message> messages_;
  std::deque<std::array<std::byte, tensor::kSquareSumBytes>> square_places_;
  std::vector<ServerAction> actions_;
  std::vector<WorkerAction> worker_actions_;

 public:
  std::unique_ptr<Reference> reference_;
};

void expect_reference_everywhere(System& system, const Case& job) {
  const auto& expected = system.history_.back();
  for (std::int32_t w = 0; w < job.options.workers; ++w)
    EXPECT_TRUE(same_bits(system.worker(static_cast<std::size_t>(w)).parameters, expected)) << "worker " << w;
  const Reference& reference = *system.reference_;
  const scheduling::UnitPlan& units = system.plan().units();
  for (std::uint32_t id = 0; id < units.parts.size(); ++id) {
    const scheduling::Part& planned = units.parts[id];
    const auto saved = system.server(static_cast<std::size_t>(units.units[planned.unit].server.value)).export_part(id);
    const auto part = [&](const std::vector<float>& plane) {
      return std::span(plane).subspan(static_cast<std::size_t>(planned.offset), static_cast<std::size_t>(planned.elements));
    };
    const auto n = static_cast<std::size_t>(planned.elements);
    if (saved.state.size() >= n) {
      EXPECT_TRUE(same_bits(saved.state.first(n), part(reference.m)));
    }
    if (saved.state.size() == 2 * n) {
      EXPECT_TRUE(same_bits(saved.state.last(n), part(reference.v)));
    }
    EXPECT_EQ(saved.steps, reference.steps[planned.tensor]);
    EXPECT_EQ(saved.version, job.options.first + job.iterations - 1);
  }
  for (std::int32_t s = 0; s < job.options.servers; ++s) {
    const auto& counters = system.server(static_cast<std::size_t>(s)).counters();
    EXPECT_EQ(counters.gradient_bytes, 0);
    EXPECT_LE(counters.gradient_bytes_high, (job.options.workers + 1) * 4 * system.plan().units().elements_of(Rank{s}));
  }
}

Case random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t from, std::uint64_t to) { return from + random() % (to - from + 1); };
  Case job;
  job.seed = seed;
  std::vector<std::vector<std::int64_t>> sizes(draw(1, 4));
  for (auto& layer : sizes) {
    layer.resize(draw(1, 3));
    for (auto& size : layer) size = static_cast<std::int64_t>(draw(0, 8) == 0 ? draw(0, 1) : draw(1, 40));
  }
  sizes[0][0] += 1;
  JobOptions& options = job.options;
  const auto groups = static_cast<std::int32_t>(draw(1, 2));
  job.table = testing::table_of(sizes, groups);
  if (groups == 2) options.update.groups = {{1.0, 0.0}, {0.5, 0.01}};
  options.workers = static_cast<std::int32_t>(draw(1, 4));
  options.servers = static_cast<std::int32_t>(draw(1, 3));
  const auto name = scheduling::schedule_names()[draw(0, scheduling::schedule_names().size() - 1)];
  options.schedule = *scheduling::parse_schedule_name(name);
  const scheduling::Cut cuts[] = {scheduling::whole_tensors(), scheduling::balanced_tensors(), scheduling::split_large_tensors(16),
                                  scheduling::slices_of(7)};
  options.schedule.cut = cuts[draw(0, 3)];
  options.schedule.cut.merge = draw(0, 1) == 0 ? 0 : static_cast<std::int64_t>(draw(1, 60));
  if (draw(0, 3) == 0) options.schedule.back = scheduling::Return::kPullInBatches;
  if (options.schedule.back == scheduling::Return::kPullInBatches && seed % 2 == 0)
    options.schedule.push = scheduling::PushWhen::kInBatches;
  options.update.optimizer.kind = static_cast<tensor::OptimizerKind>(draw(0, 4));
  options.update.optimizer.weight_decay = draw(0, 1) == 0 ? 0 : 0.1;
  options.update.learning_rate = *tensor::parse_schedule("step:0.1,every=2,factor=0.5");
  if (draw(0, 2) == 0) options.update.clip_norm = draw(0, 1) == 0 ? 0.5 : 1e6;
  options.update.non_finite = static_cast<NonFinitePolicy>(draw(0, 2));
  options.first = draw(0, 3) == 0 ? 17 : 1;
  job.unused_per_cent = static_cast<unsigned>(draw(0, 2) * 25);
  job.iterations = static_cast<Iteration>(draw(1, 4));
  return job;
}

TEST(System, GivesTheReferencesBitsForEveryScheduleOptimizerAndOrderOfMessages) {
  std::int64_t batched_values = 0, batched_pushes = 0, merged_layers = 0;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Case job = random_case(seed);
    System system(job);
    system.run();
    if (HasFailure()) return;
    expect_reference_everywhere(system, job);
    if (HasFailure()) return;
    batched_values += system.batched_values;
    batched_pushes += system.batched_pushes;
    merged_layers +=
        std::ranges::count_if(system.plan().units().units, [](const auto& unit) { return unit.layer != unit.last_layer; });
  }
  EXPECT_GT(batched_values, 100);
  EXPECT_GT(batched_pushes, 100);
  EXPECT_GT(merged_layers, 100);
}

TEST(System, IsTheSameForEveryNumberOfServersAndEveryCutWithClipping) {
  std::vector<float> first;
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    for (const scheduling::Cut cut :
         {scheduling::whole_tensors(), scheduling::balanced_tensors(), scheduling::slices_of(3), scheduling::slices_of(1000)}) {
      Case job;
      job.seed = 5;
      job.table = testing::table_of({{40, 7}, {13}, {64, 1}});
      job.options.workers = 3;
      job.options.servers = servers;
      job.options.schedule.cut = cut;
      job.options.update.clip_norm = 1.25;
      job.options.update.optimizer.kind = tensor::OptimizerKind::kAdam;
      System system(job);
      system.run();
      ASSERT_FALSE(HasFailure());
      expect_reference_everywhere(system, job);
      if (first.empty()) first = system.worker(0).parameters;
      EXPECT_TRUE(same_bits(first, system.worker(0).parameters)) << servers << " servers";
    }
  }
}

// Whole numbers do not round: every push adds 1, so in the end each value is the number of pushes, when none is lost and none
// counted twice.
// Workers of unequal speed take one mini-batch after the other.
Case ledger(std::uint64_t seed, sync::SyncKind kind, std::int64_t staleness) {
  Case job = random_case(seed);
  job.options.first = 1;
  job.options.update = {};
  job.options.update.learning_rate.base = 1;
  for (auto& tensor : job.table.tensors) tensor.group = 0;
  job.options.sync.kind = kind;
  job.options.sync.staleness = staleness;
  job.zero_initial = true;
  job.iterations = 6;
  job.unused_per_cent = 0;
  job.gradient = [](std::int32_t, Iteration, std::int64_t) { return -1.0F; };
  for (std::int32_t worker = 0; worker < job.options.workers; ++worker)
    job.slowness.push_back(1 + static_cast<unsigned>((seed + static_cast<std::uint64_t>(worker)) % 4));
  return job;
}

void expect_every_push_counted_once(System& system, const Case& job) {
  const auto pushes = static_cast<float>(job.options.workers * job.iterations);
  const scheduling::UnitPlan& units = system.plan().units();
  for (std::uint32_t part = 0; part < units.parts.size(); ++part) {
    const Rank server = units.units[units.parts[part].unit].server;
    for (const float value : system.server(static_cast<std::size_t>(server.value)).export_part(part).value)
      ASSERT_EQ(value, pushes);
  }
  std::vector<std::int64_t> done;
  for (std::int32_t w = 0; w < job.options.workers; ++w) {
    const System::Worker& worker = system.worker(static_cast<std::size_t>(w));
    for (const float value : worker.parameters) ASSERT_EQ(value, pushes);  // the final values, which all workers wait for
    done.insert(done.end(), worker.mini_batches.begin(), worker.mini_batches.end());
  }
  std::ranges::sort(done);
  std::vector<std::int64_t> all(static_cast<std::size_t>(job.options.workers * job.iterations));
  std::iota(all.begin(), all.end(), 1);
  ASSERT_EQ(done, all) << "every mini-batch once";
}

TEST(System, CountsEveryPushOnceInAsp) {
  std::int64_t copies = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Case job = ledger(seed, sync::SyncKind::kAsp, 0);
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    copies += system.server(0).counters().value_copies;
  }
  EXPECT_GT(copies, 0);  // updates did meet values on their way, so that the copies are tested
}

TEST(System, CountsEveryPushOnceInSspAndKeepsItsBound) {
  std::int64_t largest_lead = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto staleness = static_cast<std::int64_t>(seed % 3);
    const Case job = ledger(seed, sync::SyncKind::kSsp, staleness);
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    EXPECT_LE(system.largest_lead, staleness);
    largest_lead = std::max(largest_lead, system.largest_lead);
  }
  EXPECT_EQ(largest_lead, 2);
}

// The first iterations are summed like BSP's: of them all workers together add one mean.
TEST(System, CountsEveryPushOnceInElasticBsp) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Case job = ledger(seed, sync::SyncKind::kElasticBsp, 0);
    job.iterations = 10;
    job.options.sync.lookahead = 1 + static_cast<std::int64_t>(seed % 6);
    job.options.sync.history = 1 + static_cast<std::int64_t>(seed % 3);
    job.options.sync.objective = seed % 2 == 0 ? sync::Objective::kSpan : sync::Objective::kWaitingShare;
    job.options.sync.scale = sync::GradientScale::kFull;  // of the sum, too
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    expect_every_push_counted_once(system, job);
    ASSERT_FALSE(HasFailure());
    EXPECT_LT(system.largest_staleness, job.options.sync.lookahead);
  }
}

TEST(System, AtAnElasticBarrierAllWorkersHoldEqualWeightsAfterDifferentNumbersOfIterations) {
  std::int64_t compared = 0, uneven = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Case job = ledger(seed, sync::SyncKind::kElasticBsp, 0);
    job.options.update.learning_rate.base = 0.01;
    job.gradient = {};
    job.iterations = 12;
    job.options.sync.lookahead = 5;
    job.options.sync.history = 2;
    job.options.sync.objective = seed % 2 == 0 ? sync::Objective::kSpan : sync::Objective::kWaitingShare;
    System system(job);
    system.run();
    ASSERT_FALSE(HasFailure());
    std::vector<Iteration> ended(static_cast<std::size_t>(job.options.workers), 0);
    for (const sync::Superstep& superstep : system.supersteps) {
      uneven += std::ranges::adjacent_find(superstep.iterations, std::not_equal_to<>()) != superstep.iterations.end() ? 1 : 0;
      for (std::size_t i = 0; i < superstep.workers.size(); ++i)
        ended[static_cast<std::size_t>(superstep.workers[i].value)] += superstep.iterations[i];
      const std::vector<float>* first = nullptr;
      for (const Rank worker : superstep.workers) {
        const auto& began_with = system.worker(static_cast<std::size_t>(worker.value)).began_with;
        const auto found = began_with.find(ended[static_cast<std::size_t>(worker.value)] + 1);
        if (found == began_with.end()) continue;  // no mini-batch was left for it
        if (first == nullptr) first = &found->second;
        ASSERT_TRUE(same_bits(*first, found->second)) << "superstep " << superstep.number << ", worker " << worker.value;
        ++compared;
      }
    }
    for (std::int32_t w = 1; w < job.options.workers; ++w)
      ASSERT_TRUE(same_bits(system.worker(0).parameters, system.worker(static_cast<std::size_t>(w)).parameters)) << "at the end";
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(uneven, 100);
}

Case with_nan(NonFinitePolicy policy, std::int32_t servers, std::uint64_t seed) {
  Case job;
  job.seed = seed;
  job.table = testing::table_of({{10}, {10, 3}, {10}});
  job.options.workers = 3;
  job.options.servers = servers;
  job.options.update.non_finite = policy;
  job.options.update.optimizer.kind = tensor::OptimizerKind::kMomentum;
  job.iterations = 4;
  job.gradient = [seed](std::int32_t worker, Iteration iteration, std::int64_t index) {
    if (worker == 1 && iteration == 2 && index == 12) return std::numeric_limits<float>::quiet_NaN();
    return testing::gradient_element(seed, worker, iteration, index);
  };
  return job;
}

TEST(System, StopsAtANonFiniteGradientAndNamesWorkerLayerAndIteration) {
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    System system(with_nan(NonFinitePolicy::kStop, servers, 8));
    system.run();
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(system.stops.size(), 1U);
    EXPECT_EQ(system.stops[0].kind(), ErrorKind::kCorrupt);
    for (const char* part : {"worker 1", "layer 1 \"layer1\"", "iteration 2", "element 2 is nan"}) {
      EXPECT_NE(system.stops[0].message().find(part), std::string::npos) << system.stops[0].message();
    }
  }
}

TEST(System, SkipsAnIterationWithANonFiniteGradientOnAllServers) {
  for (std::int32_t servers = 1; servers <= 3; ++servers) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Case job = with_nan(NonFinitePolicy::kSkip, servers, seed);
      System system(job);
      system.run();
      ASSERT_FALSE(HasFailure());
      expect_reference_everywhere(system, job);
      EXPECT_TRUE(same_bits(system.history_[1], system.history_[2]));
      EXPECT_EQ(system.skips.size(), static_cast<std::size_t>(servers));
      EXPECT_EQ(std::ranges::count_if(system.skips,
                                      [](const Status& skip) { return skip.message().find("worker 1") != std::string::npos; }),
                1);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(System, CompletesEveryIterationOnceAndInOrder) {
  Case job = random_case(3);
  job.options.sync.kind = sync::SyncKind::kBsp;
  job.options.servers = 1;
  job.iterations = 5;
  System system(job);
  system.run();
  ASSERT_FALSE(HasFailure());
  std::vector<Iteration> expected(5);
  std::iota(expected.begin(), expected.end(), job.options.first);
  EXPECT_EQ(system.completed, expected);
}

}  // namespace
}  // namespace paceline::paramserver
