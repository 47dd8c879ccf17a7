// How long an urgent slice takes to arrive when a backlog of others was ready long before it, by window: the sessions of a job
// between two hosts of a lab, or over the loopback. Every message that arrives is compared with what was sent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/spread.h"
#include "lab/lab.h"
#include "scheduling/window.h"

namespace paceline::bench {

struct PreemptionBenchOptions {
  const lab::Lab* lab = nullptr;                  // from its host 0 to its host 1; null: over the loopback
  Bytes backlog{16'000'000};                      // in whole slices, at least four
  Bytes slice{200'000};                           // at least 1 byte
  std::vector<scheduling::WindowRule> windows{};  // at least one; contestants take turns
  int runs = 5;                                   // of each; at least 1
  std::function<void(int done)> on_run;           // after each turn of all; may be empty
};

struct PreemptionBenchReport {
  // Seconds from the moment at which the slice is ready, while half of the backlog has not been received, until it has arrived; by
  // window, as in the options.
  std::vector<Spread> urgent_seconds;
  std::vector<double> window_bytes;  // when the slice became ready; median
  // How many messages of the backlog that had not been acknowledged at the first moment arrived before the second; median.
  std::vector<double> overtaken_by;
};

// Errors: kBadRequest for options out of range, kCorrupt when bytes arrived wrong, kDeadline, kIo.
Result<PreemptionBenchReport> run_preemption_bench(const PreemptionBenchOptions& options);

}  // namespace paceline::bench
