// What a server's work on a gradient costs against copying memory: the sum of the workers' gradients in rank order, the check that
// it is finite, and the optimizer's step, unit after unit as they arrive, in one thread. Gradients and parameters are larger than
// the caches. The copy (memcpy of the same units) is timed in the same turns; every contestant's rate counts the bytes it must read
// and write from and to memory, so that 1 is what the memory allows. Seconds are those of the thread's core (CPU time). Results are
// compared bit by bit with a plain loop.
#pragma once

#include <functional>

#include "base/quantity.h"
#include "base/status.h"
#include "bench/spread.h"

namespace paceline::bench {

struct ServerBenchOptions {
  int runs = 9;                          // of each contestant, in turn; at least 1
  int workers = 4;                       // at least 1
  Bytes parameters{64'000'000};          // and of each worker's gradient; in whole units, at least one
  Bytes unit{200'000};                   // whole parameters
  std::function<void(int done)> on_run;  // after each turn; may be empty
};

struct ServerBenchReport {
  // Bytes read and written per second of the core.
  Spread copy;             // 2 per byte of parameters
  Spread sum;              // workers + 1: the sum alone
  Spread update_sgd;       // workers + 2: sum, check, step; the sum stays in the cache
  Spread update_momentum;  // workers + 4: and the momentum, read and written
  // Medians of the ratios to the copy within each turn.
  double sum_of_copy = 0;
  double update_sgd_of_copy = 0;
  double update_momentum_of_copy = 0;
};

// Blocks for some seconds. Errors: kBadRequest for options out of range, kCorrupt when a result is not the plain loop's.
Result<ServerBenchReport> run_server_bench(const ServerBenchOptions& options);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServerBenchReport, copy, sum, update_sgd, update_momentum, sum_of_copy, update_sgd_of_copy,
                                   update_momentum_of_copy)

}  // namespace paceline::bench
