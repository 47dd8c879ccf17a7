// What the decisions cost that are made for every message while very many wait: which chunk leaves a node next
// (scheduling/egress_queue.h) and which gradient a server works off next (scheduling/ingress_queue.h); and what a plan of batches
// costs (scheduling/batching.h), which is made while training waits. One thread. What is decided is compared with the order that
// sorting all of it gives, a plan with the other plans.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "bench/spread.h"

namespace paceline::bench {

struct DecisionsBenchOptions {
  int runs = 9;                          // at least 1
  std::int32_t layers = 1'000;           // at least 1
  std::int32_t destinations = 8;         // at least 1
  std::int64_t units = 1'000'000;        // that wait when the first decision is made
  std::int64_t decisions = 200'000;      // of each kind and run; at least 1, at most `units`
  std::int64_t plans = 20;               // of batches of `layers` layers, in each run; at least 1
  std::function<void(int done)> on_run;  // after each run; may be empty
};

// Nanoseconds each, mean of a run.
struct DecisionsBenchReport {
  Spread ready;    // a unit joins the egress queue
  Spread leave;    // a chunk is chosen and acknowledged; half of the units are gradients, half values
  Spread arrived;  // a gradient joins a server's queue
  Spread work;     // one is chosen
  struct Plan {
    Spread exact;   // batches with the least makespan are planned, on tables drawn anew for each plan
    Spread ibatch;  // batches are planned by the better of the two greedy algorithms, on the same tables
  } plan;
};

// Blocks for some seconds. Errors: kBadRequest for options out of range, kCorrupt when a decision is not the sorted order's, or a
// plan takes longer than another one.
Result<DecisionsBenchReport> run_decisions_bench(const DecisionsBenchOptions& options);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DecisionsBenchReport, ready, leave, arrived, work)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DecisionsBenchReport::Plan, exact, ibatch)

}  // namespace paceline::bench
