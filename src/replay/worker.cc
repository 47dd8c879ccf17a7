#include "replay/worker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checksum.h"
#include "checkpoint/checkpoint_part.h"
#include "replay/value_check.h"
#include "training/mini_batches.h"
#include "training/phase_timer.h"
#include "training/precise_sleep.h"

namespace paceline::replay {
namespace {

using report::Phase;

// What is made or checked between two looks at the clock: some 10 us of memory.
constexpr std::int64_t kPieceElements = 16'384;
// No new piece is begun so shortly before a layer's end.
constexpr Duration kReserve = std::chrono::microseconds(60);

// A part of one layer, and of one unit where all is added in one order.
struct Piece {
  std::size_t layer = 0;
  std::int64_t offset = 0, elements = 0;
  ValueCheck::Part part;
};

// The pieces in the order of the arena, and the first one of each layer; one more at the end.
struct Pieces {
  std::vector<Piece> all;
  std::vector<std::size_t> first_of_layer;
};

struct Run {
  std::int64_t end = 0;  // in the arena
  std::size_t order = 0;
};

std::vector<Run> runs_of(const job::Plan& plan, const collectives::GradientAdditions& additions) {
  std::vector<Run> runs;
  for (const scheduling::Unit& unit : plan.units().units) {
    std::int64_t end = unit.offset;
    for (const auto& run : additions.runs_of(unit)) runs.push_back({end += run.elements, run.order});
  }
  return runs;
}

Pieces cut(const job::Plan& plan, const collectives::GradientAdditions& additions) {
  Pieces pieces;
  const auto offsets = plan.table().offsets();
  const auto runs = runs_of(plan, additions);
  auto run = runs.begin();
  for (std::size_t layer = 0; layer + 1 < offsets.size(); ++layer) {
    pieces.first_of_layer.push_back(pieces.all.size());
    for (std::int64_t at = offsets[layer]; at < offsets[layer + 1];) {
      while (run->end <= at) ++run;
      const std::int64_t end = std::min({offsets[layer + 1], run->end, at + kPieceElements});
      pieces.all.push_back({layer, at, end - at, {.order = run->order}});
      at = end;
    }
  }
  pieces.first_of_layer.push_back(pieces.all.size());
  return pieces;
}

class Worker {
 public:
  Worker(const LayerTable& table, Arena& arena, runtime::WorkerProcess& process, ValueCheck check)
      : table_(table),
        arena_(arena),
        process_(process),
        exchange_(process.exchange()),
        settings_(process.settings()),
        values_(static_cast<std::uint64_t>(settings_.task.seed)),
        check_(std::move(check)),
        pieces_(cut(exchange_.plan(), check_.additions())),
        gradient_(kPeriod),
        timer_(exchange_, report_),
        progress_(process, settings_.task.iterations) {
    report_.rank = process.rank().value;
    report_.loss_first = report_.loss_last = std::numeric_limits<double>::quiet_NaN();
  }

  Status run() {
    training::want_precise_sleep();
    PACELINE_RETURN_IF_ERROR(prepare());
    at_ = clock_.now();
    bool last = false;
    MiniBatches mini_batches(process_, timer_, settings_.task.iterations);
    PACELINE_RETURN_IF_ERROR(mini_batches.begin());
    for (Iteration iteration = process_.first(); !last; ++iteration) {
      PACELINE_RETURN_IF_ERROR(train(iteration));
      const Iteration done = mini_batches.done(iteration);
      PACELINE_ASSIGN_OR_RETURN(last, mini_batches.was_last(iteration));
      // A replaying worker has nothing of its own in a checkpoint, but the checkpoint has a part of every worker.
      if (process_.checkpoint_due(iteration, last)) process_.save_part(iteration, {.fingerprint = "replay"});
      if (last) PACELINE_RETURN_IF_ERROR(finish(iteration));
      progress_.tell(report_, iteration, done, -1, last ? Importance::kLast : Importance::kUsual);
    }
    return {};
  }

  const report::WorkerReport& report() const { return report_; }

 private:
  using Importance = training::ProgressTeller::Importance;
  using MiniBatches = training::MiniBatches;

  Status prepare() {
    if (process_.first() > settings_.task.iterations) {
      return error(
          ErrorKind::kBadRequest,
          "nothing is left to train: the checkpoint {} is of iteration {} and the job has {}; ask for more with --iterations",
          settings_.saving.from, settings_.saving.iteration, settings_.task.iterations);
    }
    for (Iteration iteration = 1; iteration < process_.first(); ++iteration)
      PACELINE_RETURN_IF_ERROR(check_.on_iteration(iteration));
    return {};
  }

  Status train(Iteration iteration) {
    const double before = report_.phases.total();
    timer_.begin();
    values_.make_gradient(process_.rank(), iteration, gradient_);
    to_make_.clear();
    to_check_ = 0;
    opened_ = 0;
    const double slowness = job::slowness(process_.compute_speed(), process_.rank(), iteration);
    for (std::size_t layer = 0; layer < table_.layers.size(); ++layer) {
      PACELINE_RETURN_IF_ERROR(enter(layer, iteration));
      at_ += from_seconds(table_.layers[layer].forward * slowness);
      PACELINE_RETURN_IF_ERROR(work_until(at_, iteration));
    }
    timer_.end(Phase::kForward);
    timer_.take_waiting(Phase::kForward);

    for (std::size_t layer = table_.layers.size(); layer-- > 0;) {
      PACELINE_RETURN_IF_ERROR(make_gradient(layer));
      at_ += from_seconds(table_.layers[layer].backward * slowness);
      PACELINE_RETURN_IF_ERROR(work_until(at_, iteration));
      PACELINE_RETURN_IF_ERROR(exchange_.gradient_ready(static_cast<std::uint32_t>(layer)));
    }
    while (to_check_ < pieces_.all.size()) PACELINE_RETURN_IF_ERROR(check_next(iteration));
    PACELINE_RETURN_IF_ERROR(exchange_.backward_done(iteration));
    timer_.end(Phase::kBackward);
    ++report_.iterations;
    report_.samples += settings_.task.mini_batch;
    report_.iteration_seconds.add(report_.phases.total() - before);
    return check_.on_iteration(iteration);
  }

  // Waits at the gate of `layer` and moves at_ to when its forward began. A gate that had opened before this thread asked does not
  // count the thread's own delay, only what asking took (values that came during backward are copied then).
  Status enter(std::size_t layer, Iteration iteration) {
    const Layer which{static_cast<std::int32_t>(layer)};
    const TimePoint asked = clock_.now();
    PACELINE_RETURN_IF_ERROR(exchange_.wait_layer(which, iteration));
    const TimePoint entered = clock_.now(), opened = exchange_.opened_at(which);
    at_ = opened > asked ? entered : std::max(at_, opened) + (entered - asked);
    opened_ = pieces_.first_of_layer[layer + 1];
    to_make_.push_back({layer, pieces_.first_of_layer[layer]});
    return {};
  }

  // Makes gradients and checks values while there is time, then sleeps.
  Status work_until(TimePoint deadline, Iteration iteration) {
    while (clock_.now() + kReserve < deadline) {
      if (make_next()) continue;
      if (to_check_ == opened_) break;
      PACELINE_RETURN_IF_ERROR(check_next(iteration));
    }
    training::sleep_until(deadline);
    return {};
  }

  // Backward needs the last layer's gradient first.
  bool make_next() {
    if (to_make_.empty()) return false;
    Making& making = to_make_.back();
    if (!exchange_.gradients_free(Layer{static_cast<std::int32_t>(making.layer)})) return false;
    make(making);
    if (making.next == pieces_.first_of_layer[making.layer + 1]) to_make_.pop_back();
    return true;
  }

  struct Making {
    std::size_t layer = 0;
    std::size_t next = 0;  // piece
  };

  void make(Making& making) {
    if (making.next == pieces_.first_of_layer[making.layer + 1]) return;
    const Piece& piece = pieces_.all[making.next++];
    repeat(gradient_, piece.offset, part(arena_.gradients, piece));
  }

  // What of the layer's gradient is still missing when its backward begins.
  Status make_gradient(std::size_t layer) {
    if (to_make_.empty() || to_make_.back().layer != layer) return {};
    PACELINE_RETURN_IF_ERROR(exchange_.wait_gradients_free(Layer{static_cast<std::int32_t>(layer)}));
    while (to_make_.back().next < pieces_.first_of_layer[layer + 1]) make(to_make_.back());
    to_make_.pop_back();
    return {};
  }

  Status check_next(Iteration iteration) {
    Piece& piece = pieces_.all[to_check_++];
    const auto values = part(arena_.parameters, piece);
    const auto difference = check_.find_difference(piece.offset, values, piece.part);
    if (!difference) return {};
    const std::int64_t in_layer = piece.offset - pieces_.all[pieces_.first_of_layer[piece.layer]].offset;
    return error(
        ErrorKind::kCorrupt,
        "worker {} got a wrong value for iteration {}: {} index {} is {} and must be {}; the updates are not what they must be",
        process_.rank().value, iteration, exchange_.plan().layer_text(Layer{static_cast<std::int32_t>(piece.layer)}),
        in_layer + static_cast<std::int64_t>(difference->index), values[difference->index], difference->expected);
  }

  // The last iteration's updates come back and are checked like the others.
  Status finish(Iteration iteration) {
    PACELINE_RETURN_IF_ERROR(timer_.finish(iteration));
    for (to_check_ = 0; to_check_ < pieces_.all.size();) PACELINE_RETURN_IF_ERROR(check_next(iteration + 1));
    Hash128 hash;
    hash.update(std::as_bytes(std::span(arena_.parameters)));
    report_.parameters_hash = hash.hex();
    report_.peak_bytes = report::peak_memory();
    return {};
  }

  static std::span<float> part(std::vector<float>& arena, const Piece& piece) {
    return std::span(arena).subspan(static_cast<std::size_t>(piece.offset), static_cast<std::size_t>(piece.elements));
  }

  const SystemClock clock_;
  const LayerTable& table_;
  Arena& arena_;
  runtime::WorkerProcess& process_;
  exchange::GradientExchange& exchange_;
  const job::JobSpec& settings_;
  const Values values_;
  ValueCheck check_;
  Pieces pieces_;
  std::vector<float> gradient_;  // one period of this iteration's
  std::vector<Making> to_make_;  // gradients of open layers that are not complete
  std::size_t to_check_ = 0;     // pieces before it have been checked in this iteration,
  std::size_t opened_ = 0;       // those before this one may be
  TimePoint at_{};               // where the computing would be
  report::WorkerReport report_;
  training::PhaseTimer timer_;
  training::ProgressTeller progress_;
};

Result<report::WorkerReport> train(const LayerTable& table, Arena& arena, runtime::WorkerProcess& process) {
  PACELINE_ASSIGN_OR_RETURN(ValueCheck check, ValueCheck::make(process.settings(), process.rank(), process.workers()));
  Worker worker(table, arena, process, std::move(check));
  PACELINE_RETURN_IF_ERROR(worker.run());
  return worker.report();
}

}  // namespace

Arena::Arena(const LayerTable& table, std::uint64_t seed) {
  const auto elements = static_cast<std::size_t>(tensors_of(table).elements());
  parameters.resize(elements);
  gradients.resize(elements);
  repeat(Values(seed).initial(), 0, parameters);
}

Status run_worker(const LayerTable& table, Arena& arena, runtime::WorkerProcess& process) {
  const auto report = train(table, arena, process);
  return report.ok() ? process.finish(*report) : process.fail(report.status());
}

}  // namespace paceline::replay
