// Where a worker's training thread spends its time, and what it tells of it while it trains. Training thread only.
#pragma once

#include "base/clock.h"
#include "exchange/gradient_exchange.h"
#include "report/report.h"
#include "runtime/worker_process.h"

namespace paceline::training {

// Adds to `report` where the time of an account went. Returns the seconds of it that stood at gates.
double add(const exchange::Account& account, report::WorkerReport& report);

// Fills the phases of `report`: what passes between two marks belongs to the phase named at the second.
class PhaseTimer {
 public:
  // Both outlive it.
  PhaseTimer(exchange::GradientExchange& exchange, report::WorkerReport& report) : exchange_(exchange), report_(report) {}

  void begin() { mark_ = clock_.now(); }
  void end(report::Phase phase);
  // The loader's wait, split as the loader spent its own time.
  void end_loading(double load_seconds, double preprocess_seconds);
  // Moves the time at gates since the last call out of the phase in which they stood, to the phases of communication.
  void take_waiting(report::Phase phase);

  // Returns when the parameters hold every update up to `iteration`; the time is that of Phase::kWait.
  Status synchronise(Iteration iteration);
  // As GradientExchange::finish, and the time is that of Phase::kWait.
  Status finish(Iteration last);
  // As GradientExchange::next_mini_batch, and the time is that of Phase::kWait.
  Result<std::int64_t> next_mini_batch();

 private:
  const SystemClock clock_;
  exchange::GradientExchange& exchange_;
  report::WorkerReport& report_;
  TimePoint mark_{};
};

// Tells the coordinator how far the worker is: ten times a second, or after every iteration when the job wants metrics, and always
// of the last iteration and of an evaluation.
class ProgressTeller {
 public:
  // `process` outlives it. `last`: iterations of a worker, or their mean where workers do different numbers of them.
  ProgressTeller(runtime::WorkerProcess& process, Iteration last) : process_(process), last_(last) {}

  enum class Importance { kUsual, kLast };
  // `accuracy` -1: not evaluated. `done`: how far the job is, of `last`.
  void tell(const report::WorkerReport& report, Iteration iteration, Iteration done, double accuracy, Importance importance);

 private:
  const SystemClock clock_;
  runtime::WorkerProcess& process_;
  const Iteration last_;
  TimePoint told_{};
  report::PhaseSeconds told_phases_;
};

}  // namespace paceline::training
