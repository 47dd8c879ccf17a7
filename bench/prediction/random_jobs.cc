#include "bench/prediction/random_jobs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"

namespace paceline::bench {
namespace {

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(random_at(seed, {0x9ced1c7})) {}

  double between(double from, double to) { return from + (to - from) * static_cast<double>(random_.below(kSteps)) / kSteps; }
  double evenly_in_logarithm(double from, double to) { return std::exp(between(std::log(from), std::log(to))); }
  std::int64_t from_to(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(to - from + 1)));
  }
  bool one_of_two() { return random_.below(2) == 0; }
  template <typename Value, std::size_t kCount>
  const Value& any(const Value (&values)[kCount]) {
    return values[random_.below(kCount)];
  }

 private:
  static constexpr std::uint64_t kSteps = 1'000'000;
  Random random_;
};

// Layers of very unlike sizes that compute for `seconds` together, a third of it forward.
replay::LayerTable draw_table(Drawing& draw, double parameters, double seconds) {
  const auto layers = static_cast<std::size_t>(draw.from_to(5, 16));
  std::vector<double> sizes, times;
  double all_sizes = 0, all_times = 0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    all_sizes += sizes.emplace_back(draw.evenly_in_logarithm(0.01, 1));
    all_times += times.emplace_back(draw.evenly_in_logarithm(0.1, 1));
  }
  replay::LayerTable table;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const double time = seconds * times[layer] / all_times;
    table.layers.push_back({.name = fmt::format("layer{}", layer + 1),
                            .parameters = std::max<std::int64_t>(1, std::llround(parameters * sizes[layer] / all_sizes)),
                            .forward = time / 3,
                            .backward = time * 2 / 3});
  }
  return table;
}

void draw_sync(Drawing& draw, RandomJob& job) {
  constexpr sync::SyncKind kKinds[] = {sync::SyncKind::kBsp, sync::SyncKind::kAsp, sync::SyncKind::kSsp,
                                       sync::SyncKind::kElasticBsp};
  job.sync.kind = kKinds[job.seed % 4];
  job.holds_updates = job.sync.kind == sync::SyncKind::kBsp;
  if (job.sync.kind == sync::SyncKind::kSsp) job.sync.staleness = draw.from_to(1, 4);
  if (job.sync.kind == sync::SyncKind::kElasticBsp) {
    job.sync.lookahead = draw.from_to(3, 10);
    job.sync.history = draw.from_to(2, 5);
  }
}

void draw_schedule(Drawing& draw, RandomJob& job) {
  constexpr const char* kNames[] = {"p3", "slicing", "layer-wise", "ibatch", "kvstore", "default"};
  job.schedule_name = draw.any(kNames);
  job.schedule = *scheduling::parse_schedule_name(job.schedule_name);
  if (job.schedule.cut.kind == scheduling::Cut::Kind::kSlices) job.schedule.cut.elements = draw.from_to(5'000, 40'000);
  if (draw.one_of_two()) job.schedule.cut.merge = draw.from_to(1'000, 30'000);
}

}  // namespace

RandomJob random_job(std::uint64_t seed, double length) {
  Drawing draw(seed);
  RandomJob job{.seed = seed};
  const auto hosts = static_cast<std::size_t>(draw.from_to(2, 4));
  const double rate = draw.evenly_in_logarithm(10e6, 25e6), seconds = draw.between(0.3, 0.6);
  job.links.assign(hosts, {rate});
  if (draw.one_of_two()) job.links[static_cast<std::size_t>(draw.from_to(0, static_cast<std::int64_t>(hosts) - 1))].value *= 0.6;
  // From links that are hardly used to some that take as long as the slowest worker.
  constexpr double kSpeeds[] = {1, 0.8, 0.65, 0.5};
  for (std::size_t host = 0; host < hosts; ++host) job.speed.by_rank.push_back(draw.any(kSpeeds));
  if (std::ranges::count(job.speed.by_rank, job.speed.by_rank[0]) == static_cast<std::ptrdiff_t>(hosts))
    job.speed.by_rank.back() *= 0.6;
  if (draw.one_of_two()) job.speed.jitter = draw.between(0.02, 0.1);
  job.speed.seed = seed;
  const double moving = draw.between(0.3, 1.2) * seconds * job::slowest(job.speed);
  job.table = draw_table(draw, moving * rate / 8, seconds);
  draw_sync(draw, job);
  draw_schedule(draw, job);
  job.iterations = std::clamp<Iteration>(std::llround(length / (seconds * job::slowest(job.speed))), 10, 200);
  return job;
}

std::vector<std::string> words_of(const RandomJob& job, const std::string& table) {
  std::vector<std::string> words = {"--model",      "replay:" + table,
                                    "--iterations", std::to_string(job.iterations),
                                    "--seed",       std::to_string(job.seed),
                                    "--schedule",   job.schedule_name,
                                    "--merge",      std::to_string(job.schedule.cut.merge),
                                    "--speed",      fmt::format("{}", fmt::join(job.speed.by_rank, ",")),
                                    "--jitter",     fmt::format("{}", job.speed.jitter),
                                    "--sync",       std::string(sync::to_text(job.sync.kind))};
  const auto add = [&](const char* option, std::string value) { words.insert(words.end(), {option, std::move(value)}); };
  if (job.schedule.cut.kind == scheduling::Cut::Kind::kSlices) add("--slice", std::to_string(job.schedule.cut.elements));
  if (job.holds_updates) add("--non-finite", "skip");
  if (job.sync.kind == sync::SyncKind::kSsp) add("--staleness", std::to_string(job.sync.staleness));
  if (job.sync.kind == sync::SyncKind::kElasticBsp) {
    add("--lookahead", std::to_string(job.sync.lookahead));
    add("--history", std::to_string(job.sync.history));
  }
  return words;
}

simulation::Job job_of(const RandomJob& job) {
  simulation::Job told{.table = replay::tensors_of(job.table)};
  for (const replay::LayerRow& layer : job.table.layers) {
    told.forward.push_back(layer.forward);
    told.backward.push_back(layer.backward);
  }
  told.sync = job.sync;
  told.holds_updates = job.holds_updates;
  told.speed = job.speed;
  return told;
}

std::string RandomJob::text() const {
  std::string speeds = fmt::format("{}", fmt::join(speed.by_rank, ","));
  if (speed.jitter > 0) speeds += fmt::format(" +-{:.0f}%", 100 * speed.jitter);
  std::vector<std::string> rates;
  for (const BytesPerSecond link : links) rates.push_back(fmt::format("{:.0f}", 8e-6 * link.value));
  std::string model(sync::to_text(sync.kind));
  if (holds_updates) model += " held";
  if (sync.kind == sync::SyncKind::kSsp) model += fmt::format("({})", sync.staleness);
  if (sync.kind == sync::SyncKind::kElasticBsp) model += fmt::format("({})", sync.lookahead);
  std::string sent = schedule_name;
  if (schedule.cut.merge > 0) sent += fmt::format(" merge {}", schedule.cut.merge);
  return fmt::format("{}, {}, speeds {}, links {} Mb/s", model, sent, speeds, fmt::join(rates, ","));
}

}  // namespace paceline::bench
