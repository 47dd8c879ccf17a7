#include "bench/sync/prediction_bench.h"

#include <optional>

#include "base/clock.h"
#include "base/random.h"
#include "bench/spread.h"
#include "sync/barrier.h"

namespace paceline::bench {
namespace {

using Json = nlohmann::ordered_json;
using sync::Barrier;
using sync::EndTimes;
using sync::Objective;

struct Algorithm {
  const char* name;
  Barrier (*search)(const EndTimes&, Objective, double);
  // Of the times of the paper's Table II: seconds for 10, 100, 1000 workers, each with R = 15 and 150.
  double paper[6];
  // Steps that the search takes, for an estimate.
  double (*steps)(double workers, double lookahead);
};

constexpr Algorithm kAlgorithms[] = {
    {"zipline",
     &sync::zip_line,
     {1.49e-4, 1.32e-3, 6.37e-3, 4.99e-2, 2.53e-1, 2.38},
     [](double n, double r) { return 10 * n * r; }},
    {"grid-scan",
     &sync::grid_scan,
     {1.68e-4, 5.50e-3, 1.11e-3, 4.38e-2, 7.45e-3, 2.57e-1},
     [](double n, double r) { return n * r * r; }},
    {"full-grid-scan",
     &sync::full_grid_scan,
     {1.54e-3, 4.67e-2, 8.13e-2, 2.15, 4.04, 2.07e2},
     [](double n, double r) { return n * n * r * r; }},
};
constexpr double kStepSeconds = 1e-9;
constexpr double kRounding = 1e-9;  // of sums that are taken in another order

std::optional<double> paper_seconds(const Algorithm& algorithm, const PredictionCase& at) {
  const auto cases = table_2_cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].workers == at.workers && cases[i].lookahead == at.lookahead) return algorithm.paper[i];
  }
  return std::nullopt;
}

// Workers whose speeds differ by up to 4, as in the uneven clusters of the other parts, each with a last end of its own.
EndTimes random_ends(const PredictionCase& at, int trial) {
  Random random(random_at(
      7, {static_cast<std::uint64_t>(at.workers), static_cast<std::uint64_t>(at.lookahead), static_cast<std::uint64_t>(trial)}));
  constexpr std::uint64_t kSteps = 1'000'000;
  const auto fraction = [&] { return static_cast<double>(random.below(kSteps)) / static_cast<double>(kSteps); };
  std::vector<double> last_end, interval;
  for (std::int64_t worker = 0; worker < at.workers; ++worker) {
    last_end.push_back(fraction());
    interval.push_back(0.25 + 0.75 * fraction());
  }
  return std::move(EndTimes::predicted(std::move(last_end), std::move(interval), at.lookahead)).value();
}

double value_of(const Barrier& barrier, Objective objective) {
  return objective == Objective::kSpan ? barrier.span : barrier.waiting_share;
}

class Bench {
 public:
  explicit Bench(const PredictionBenchOptions& options) : options_(options) {}

  Result<Json> run() {
    for (const PredictionCase& at : options_.cases) {
      if (options_.on_case) options_.on_case(at);
      for (const Objective objective : {Objective::kSpan, Objective::kWaitingShare}) {
        for (const Algorithm& algorithm : kAlgorithms) PACELINE_RETURN_IF_ERROR(measure(at, objective, algorithm));
      }
    }
    return rows_;
  }

 private:
  Status measure(const PredictionCase& at, Objective objective, const Algorithm& algorithm) {
    const double expected = kStepSeconds * algorithm.steps(static_cast<double>(at.workers), static_cast<double>(at.lookahead));
    const int trials = expected > 10 * options_.longest ? 0 : expected > options_.longest ? 1 : options_.trials;
    std::vector<double> times;
    double reached = 0, best = 0;
    for (int trial = 0; trial < trials; ++trial) {
      const EndTimes ends = random_ends(at, trial);
      const double now = ends.default_now();
      const TimePoint begin = clock_.now();
      const Barrier barrier = algorithm.search(ends, objective, now);
      times.push_back(seconds(clock_.now() - begin));
      const double least = value_of(sync::zip_line(ends, objective, now), objective);
      reached += value_of(barrier, objective);
      best += least;
      if (value_of(barrier, objective) < least * (1 - kRounding)) {
        return error(ErrorKind::kCorrupt, "{} found a better barrier than ZipLine for {} workers and a lookahead of {}",
                     algorithm.name, at.workers, at.lookahead);
      }
    }
    Json row{{"workers", at.workers},       {"lookahead", at.lookahead},
             {"algorithm", algorithm.name}, {"objective", sync::to_text(objective)},
             {"seconds", nullptr},          {"trials", trials},
             {"paper_seconds", nullptr},    {"times_faster", nullptr},
             {"value_of_zip_line", nullptr}};
    if (!times.empty()) {
      const Spread spread_of = spread(times);
      row["seconds"] = {{"median", spread_of.median}, {"lowest", spread_of.lowest}, {"highest", spread_of.highest}};
      if (best > 0) row["value_of_zip_line"] = reached / best;
    }
    if (const auto paper = paper_seconds(algorithm, at); paper && objective == Objective::kSpan) {
      row["paper_seconds"] = *paper;
      if (!times.empty()) row["times_faster"] = *paper / row["seconds"]["median"].get<double>();
    }
    rows_.push_back(std::move(row));
    return {};
  }

  const PredictionBenchOptions& options_;
  const SystemClock clock_;
  Json rows_ = Json::array();
};

}  // namespace

std::vector<PredictionCase> table_2_cases() {
  std::vector<PredictionCase> cases;
  for (const std::int64_t workers : {10, 100, 1000}) {
    for (const std::int64_t lookahead : {15, 150}) cases.push_back({workers, lookahead});
  }
  return cases;
}

std::vector<PredictionCase> all_prediction_cases() {
  std::vector<PredictionCase> cases = table_2_cases();
  for (const std::int64_t lookahead : {15, 150, 1500}) cases.push_back({10'000, lookahead});
  return cases;
}

Result<Json> run_prediction_bench(const PredictionBenchOptions& options) { return Bench(options).run(); }

}  // namespace paceline::bench
