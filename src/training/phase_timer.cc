#include "training/phase_timer.h"

namespace paceline::training {
namespace {

constexpr Duration kProgressEvery = std::chrono::milliseconds(100);

}  // namespace

void PhaseTimer::end(report::Phase phase) {
  if (phase == report::Phase::kForward) exchange_.forward_done();
  const TimePoint now = clock_.now();
  report_.phases[phase] += seconds(now - mark_);
  mark_ = now;
}

void PhaseTimer::end_loading(double load_seconds, double preprocess_seconds) {
  const double own = load_seconds + preprocess_seconds;
  const double share = own > 0 ? load_seconds / own : 1;
  const TimePoint now = clock_.now();
  const double waited = seconds(now - mark_);
  report_.phases[report::Phase::kLoad] += waited * share;
  report_.phases[report::Phase::kPreprocess] += waited * (1 - share);
  mark_ = now;
}

double add(const exchange::Account& account, report::WorkerReport& report) {
  report.phases[report::Phase::kPush] += seconds(account.push);
  report.phases[report::Phase::kPull] += seconds(account.pull);
  report.phases[report::Phase::kUpdate] += seconds(account.update);
  report.phases[report::Phase::kWait] += seconds(account.wait);
  report.overlapped_push += seconds(account.overlapped_push);
  report.overlapped_pull += seconds(account.overlapped_pull);
  report.bytes_pushed += account.bytes_pushed;
  report.bytes_pulled += account.bytes_pulled;
  return seconds(account.push + account.pull + account.update + account.wait);
}

void PhaseTimer::take_waiting(report::Phase phase) {
  const exchange::Account account = exchange_.take_account();
  report_.phases[phase] -= seconds(account.push + account.pull + account.update + account.wait);
  add(account, report_);
}

Status PhaseTimer::synchronise(Iteration iteration) {
  begin();
  PACELINE_RETURN_IF_ERROR(exchange_.wait_all(iteration));
  end(report::Phase::kWait);
  take_waiting(report::Phase::kWait);
  return {};
}

Status PhaseTimer::finish(Iteration last) {
  begin();
  PACELINE_RETURN_IF_ERROR(exchange_.finish(last));
  end(report::Phase::kWait);
  take_waiting(report::Phase::kWait);
  return {};
}

Result<std::int64_t> PhaseTimer::next_mini_batch() {
  begin();
  const auto number = exchange_.next_mini_batch();
  end(report::Phase::kWait);
  if (!number.ok()) return number.status();
  return **number;
}

void ProgressTeller::tell(const report::WorkerReport& report, Iteration iteration, Iteration done, double accuracy,
                          Importance importance) {
  const TimePoint now = clock_.now();
  const bool wanted = process_.settings().watching.metrics || accuracy >= 0 || importance == Importance::kLast;
  if (!wanted && now - told_ < kProgressEvery) return;
  told_ = now;
  // Where every iteration is told, the parts below are of this one, and so is what was waited before an evaluation and at the end.
  const double took =
      process_.settings().watching.metrics ? report.phases.total() - told_phases_.total() : report.iteration_seconds.last();
  report::Json progress{{"rank", report.rank}, {"iteration", iteration},   {"done", done},
                        {"last", last_},       {"loss", report.loss_last}, {"seconds", took}};
  if (accuracy >= 0) progress["accuracy"] = accuracy;
  // Since the last telling.
  const auto grown = [&](std::initializer_list<report::Phase> phases) {
    double sum = 0;
    for (const report::Phase phase : phases) sum += report.phases[phase] - told_phases_[phase];
    return sum;
  };
  progress["computing"] = grown({report::Phase::kForward, report::Phase::kBackward});
  progress["waiting_barrier"] = grown({report::Phase::kWait});
  progress["waiting_parameters"] = grown({report::Phase::kPush, report::Phase::kPull, report::Phase::kUpdate});
  told_phases_ = report.phases;
  process_.send_progress(progress.dump());
}

}  // namespace paceline::training
