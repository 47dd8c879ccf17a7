#include "bench/decisions/decisions_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "scheduling/batching.h"
#include "scheduling/egress_queue.h"
#include "scheduling/ingress_queue.h"

namespace paceline::bench {
namespace {

using scheduling::EgressQueue;
using scheduling::Flow;
using scheduling::IngressQueue;
using scheduling::Order;

constexpr Bytes kUnit{1'000};

class Timer {
 public:
  double nanoseconds_each(std::int64_t count) const {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start_).count() / static_cast<double>(count);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Layers of the units by tag, the same in every run.
std::vector<std::int32_t> drawn_layers(const DecisionsBenchOptions& options) {
  std::mt19937_64 random(1);
  std::vector<std::int32_t> layers(static_cast<std::size_t>(options.units));
  for (std::int32_t& layer : layers) layer = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(options.layers));
  return layers;
}

// By layer and then as they came; only the first `decisions` are in place.
std::vector<std::uint64_t> sorted(const std::vector<std::int32_t>& layers, std::int64_t decisions) {
  std::vector<std::uint64_t> tags(layers.size());
  for (std::size_t tag = 0; tag < tags.size(); ++tag) tags[tag] = tag;
  std::partial_sort(tags.begin(), tags.begin() + decisions, tags.end(),
                    [&](std::uint64_t a, std::uint64_t b) { return std::pair(layers[a], a) < std::pair(layers[b], b); });
  tags.resize(static_cast<std::size_t>(decisions));
  return tags;
}

// Values and gradients of a layer take turns, so only their layers are in the sorted order; within a flow it is exact.
Status check_egress(const std::vector<std::uint64_t>& taken, const std::vector<std::uint64_t>& wanted,
                    const std::vector<std::int32_t>& layers) {
  std::vector<std::uint64_t> last(2, 0);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const bool in_order = layers[taken[i]] == layers[wanted[i]] &&
                          (i == 0 || layers[taken[i]] != layers[taken[i - 1]] || last[taken[i] % 2] <= taken[i]);
    if (!in_order)
      return error(ErrorKind::kCorrupt, "chunk {} that left was of unit {}, which is not the most urgent", i, taken[i]);
    if (i > 0 && layers[taken[i]] != layers[taken[i - 1]]) last = {0, 0};
    last[taken[i] % 2] = taken[i];
  }
  return {};
}

struct Run {
  double ready = 0, leave = 0, arrived = 0, work = 0, exact = 0, ibatch = 0;
};

// Layers whose times differ by a factor of a thousand, on links from one where a start-up counts for nothing to one where it is
// all.
scheduling::BatchingProblem drawn_problem(std::mt19937_64& random, std::int32_t layers) {
  std::uniform_real_distribution<double> exponent(-6, -3);
  scheduling::BatchingProblem problem;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    problem.transfer.push_back(std::pow(10, exponent(random)));
    problem.compute.push_back(std::pow(10, exponent(random)));
  }
  problem.start_up = std::pow(10, exponent(random));
  return problem;
}

Status plan_batches(const DecisionsBenchOptions& options, std::uint64_t seed, Run& run) {
  std::mt19937_64 random(seed);
  std::vector<scheduling::BatchingProblem> problems;
  for (std::int64_t i = 0; i < options.plans; ++i) problems.push_back(drawn_problem(random, options.layers));
  std::vector<scheduling::Bounds> exact, greedy;
  const Timer exact_time;
  for (const auto& problem : problems) exact.push_back(scheduling::exact_batching(problem));
  run.exact = exact_time.nanoseconds_each(options.plans);
  const Timer greedy_time;
  for (const auto& problem : problems) greedy.push_back(scheduling::ibatch(problem).bounds);
  run.ibatch = greedy_time.nanoseconds_each(options.plans);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const double least = scheduling::makespan(problems[i], exact[i]);
    for (const scheduling::Bounds& other :
         {greedy[i], scheduling::layer_wise_batching(problems[i]), scheduling::default_batching(problems[i])}) {
      if (scheduling::makespan(problems[i], other) < least)
        return error(ErrorKind::kCorrupt, "the exact batching of table {} takes {} s, another one less", i, least);
    }
  }
  return {};
}

Result<Run> run_once(const DecisionsBenchOptions& options, const std::vector<std::int32_t>& layers,
                     const std::vector<std::uint64_t>& wanted) {
  Run run;
  std::vector<std::uint64_t> taken;
  taken.reserve(wanted.size());
  EgressQueue egress({.window = kUnit * 1'000, .chunk = kUnit});
  std::vector<EgressQueue::Destination> destinations;
  for (std::int32_t i = 0; i < options.destinations; ++i) {
    destinations.push_back(egress.add());
    egress.resume(destinations.back());
  }
  const Timer ready;
  for (std::size_t tag = 0; tag < layers.size(); ++tag) {
    egress.on_ready({.destination = destinations[tag / 2 % destinations.size()],
                     .layer = {layers[tag]},
                     .size = kUnit,
                     .tag = tag,
                     .flow = tag % 2 == 0 ? Flow::kPush : Flow::kReply});
  }
  run.ready = ready.nanoseconds_each(options.units);
  const Timer leave;
  for (std::int64_t i = 0; i < options.decisions; ++i) {
    const auto chunk = egress.take();
    if (!chunk) return error(ErrorKind::kCorrupt, "nothing leaves though {} units wait", egress.waiting());
    taken.push_back(chunk->tag);
    egress.on_acknowledged(chunk->destination, chunk->size);
  }
  run.leave = leave.nanoseconds_each(options.decisions);
  PACELINE_RETURN_IF_ERROR(check_egress(taken, wanted, layers));

  taken.clear();
  IngressQueue<std::uint64_t> ingress(Order::kByLayer);
  const Timer arrived;
  for (std::size_t tag = 0; tag < layers.size(); ++tag) ingress.on_arrived({layers[tag]}, tag);
  run.arrived = arrived.nanoseconds_each(options.units);
  const Timer work;
  for (std::int64_t i = 0; i < options.decisions; ++i) taken.push_back(*ingress.take());
  run.work = work.nanoseconds_each(options.decisions);
  if (taken != wanted) return error(ErrorKind::kCorrupt, "gradients were not worked off by layer");
  return run;
}

}  // namespace

Result<DecisionsBenchReport> run_decisions_bench(const DecisionsBenchOptions& options) {
  if (options.runs < 1 || options.layers < 1 || options.destinations < 1 || options.decisions < 1 ||
      options.decisions > options.units || options.plans < 1) {
    return error(ErrorKind::kBadRequest,
                 "{} runs, {} layers, {} destinations, {} decisions of {} units, {} plans; each is at least 1, and there are "
                 "enough units",
                 options.runs, options.layers, options.destinations, options.decisions, options.units, options.plans);
  }
  const std::vector<std::int32_t> layers = drawn_layers(options);
  const std::vector<std::uint64_t> wanted = sorted(layers, options.decisions);
  std::vector<double> ready, leave, arrived, work, exact, ibatch;
  for (int done = 1; done <= options.runs; ++done) {
    PACELINE_ASSIGN_OR_RETURN(Run run, run_once(options, layers, wanted));
    PACELINE_RETURN_IF_ERROR(plan_batches(options, static_cast<std::uint64_t>(done), run));
    ready.push_back(run.ready);
    leave.push_back(run.leave);
    arrived.push_back(run.arrived);
    work.push_back(run.work);
    exact.push_back(run.exact);
    ibatch.push_back(run.ibatch);
    if (options.on_run) options.on_run(done);
  }
  return DecisionsBenchReport{spread(ready), spread(leave), spread(arrived), spread(work), {spread(exact), spread(ibatch)}};
}

}  // namespace paceline::bench
