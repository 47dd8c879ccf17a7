// Whole jobs - server and worker cores, a bag of messages that arrive in any order, in pieces - stepped in virtual time from a
// seed.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "exchange/verdict.h"
#include "job/testing_jobs.h"
#include "paramserver/core/push_ledger.h"
#include "paramserver/core/server.h"

namespace paceline::paramserver::testing {

using namespace job::testing;

struct Case {
  std::uint64_t seed = 0;
  job::PlanOptions options;
  wire::TensorTable table;
  Iteration iterations = 3;
  unsigned unused_per_cent = 0;
  bool zero_initial = false;
  // With a model other than BSP: a worker's step is taken with a chance of one in `slowness[worker]`.
  std::vector<unsigned> slowness = {};
  // Overrides the gradient.
  std::function<float(std::int32_t worker, Iteration iteration, std::int64_t index)> gradient;
};

// A job in BSP with whatever options the seed draws.
Case random_case(std::uint64_t seed);

// A message on its way: begins, is complete, is acknowledged; each at a random moment.
struct Transit {
  Rank from, to;  // within the roles at the ends of its channel
  wire::Message message;
  std::span<const std::byte> payload = {};
  std::uint64_t ticket = 0;
  enum class State { kSent, kBegun, kReceived } state = State::kSent;
  std::span<std::byte> place = {};
  std::vector<float>* arena = nullptr;            // of a value: where it belongs
  std::vector<std::span<std::byte>> places = {};  // of several gradients
};

class System final : private wire::EventSink {
 public:
  explicit System(const Case& job);

  // Runs to the end; afterwards every worker has waited for the last values.
  void run();

  struct Worker {
    Worker(const std::shared_ptr<const job::Plan>& plan, Rank rank, std::size_t elements)
        : gates(plan, rank, gate_rule(plan->options().schedule)),
          core(gates, rank),
          verdicts(*plan, plan->servers_with_units()),
          parameters(elements),
          staging(elements),
          gradients(elements) {}
    exchange::GateLedger gates;
    PushLedger core;
    exchange::VerdictLedger verdicts;
    Iteration judged = 0;  // whose verdict was checked last
    std::vector<float> parameters, staging, gradients, seen;
    enum class Phase { kForward, kBackward, kFinishing, kDone } phase = Phase::kForward;
    std::deque<std::int64_t> handed_out;     // and not begun
    std::vector<std::int64_t> mini_batches;  // done
    std::map<Iteration, std::vector<float>> began_with;
    std::int32_t next_layer = 0;               // forward
    std::vector<std::uint32_t> order, unused;  // backward: tensors to come
  };

  const job::Plan& plan() const { return *plan_; }
  Server& server(std::size_t s) { return *servers_[s]; }
  Worker& worker(std::size_t w) { return *workers_[w]; }
  // The parameters after every iteration, as the reference has them (BSP).
  std::vector<std::vector<float>> history_;
  std::unique_ptr<Reference> reference_;
  std::vector<Iteration> completed;  // of server 0
  std::vector<Status> stops, skips;
  std::int64_t largest_lead = 0, largest_staleness = 0;
  std::vector<sync::Superstep> supersteps;
  std::int64_t verdicts_checked = 0, early_verdicts = 0;  // early: not all means had come
  std::int64_t batched_values = 0;                        // messages with values of several units
  std::int64_t batched_pushes = 0;                        // messages with gradients of several units

 private:
  void on_event(const wire::Event& event) override {
    if (event.what == wire::Happening::kStarted) largest_staleness = std::max<std::int64_t>(largest_staleness, event.detail);
  }

  // Other ones for every worker: what is asked for together is its own affair.
  scheduling::Bounds random_batches();
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
  std::span<std::byte> place_of(std::vector<float>& arena, std::uint32_t unit);
  void post(const Transit& transit) { messages_.push_back(transit); }

  // --- workers ---

  void step_worker(Worker& worker);

  // Whether the worker may go on with its next mini-batch; the last one to be handed out has the number of all there are.
  bool takes_mini_batch(Worker& worker);
  void copy_staged(Worker& worker, scheduling::UnitRange units);
  void step_forward(Worker& worker);
  bool used_in(Layer layer, std::int32_t rank, Iteration iteration) const;
  // Has no gradient of the worker.
  bool is_unused(std::int32_t worker, Iteration iteration, std::uint32_t tensor) const {
    return job_.table.tensors[tensor].frozen || testing::is_unused(job_.seed, worker, iteration, tensor, job_.unused_per_cent);
  }

  // UpdateOptions::verdict: that of the iteration before is there, and is what plain loops say. Now and then it is not asked for.
  bool verdict_checked(Worker& worker, Iteration iteration);
  exchange::Verdict plain_verdict(Iteration iteration);
  // In BSP the layer's parameters are those after the iteration before.
  void check_values(const Worker& worker, Layer layer, Iteration iteration);
  const std::vector<float>& parameters_after(Iteration iteration);

  float gradient(std::int32_t worker, Iteration iteration, std::int64_t index) const {
    return job_.gradient ? job_.gradient(worker, iteration, index) : testing::gradient_element(job_.seed, worker, iteration, index);
  }

  void step_backward(Worker& worker);
  void send_all(Worker& worker);

  // --- messages ---

  // Messages overtake each other, but not those of the same session that are in one layer.
  std::size_t earliest_like(std::size_t index) const;
  void step_message(std::size_t chosen);
  void begin(Transit& transit);
  void begin_gradients(Transit& transit, const wire::Pushes& pushes);
  void deal_out_gradients(const Transit& transit, const wire::Pushes& pushes);
  void deal_out(const Transit& transit);
  void receive(const Transit& transit);
  void receive_verdict(const Transit& transit, Iteration iteration);
  void on_sent(const Transit& transit);

  // Every server hears of it at some moment of its own; what one server hears is in order.
  void tell_barriers(const sync::BarrierQuestion& question);
  void carry_out(Server& server, const Status& status);
  void check_saved(const Server& server, Iteration iteration);

  Case job_;
  std::mt19937_64 random_;
  std::shared_ptr<const job::Plan> plan_;
  std::size_t elements_;
  TimePoint now_{};
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Transit> messages_;
  std::deque<std::vector<std::byte>> places_;  // of square sums and verdicts
  std::vector<Leaving> leaving_;
  std::vector<Send> sends_;
  std::vector<exchange::GateLedger::Complete> complete_;
};

}  // namespace paceline::paramserver::testing
