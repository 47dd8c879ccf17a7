#include "report/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <ranges>

#include <sys/resource.h>

#include "base/median.h"
#include "base/text.h"

namespace paceline::report {
namespace {

constexpr std::array<const char*, kPhases> kPhaseNames = {"load", "preprocess", "transfer", "forward", "backward",
                                                          "push", "pull",       "update",   "wait"};

template <typename Report, typename Field>
double mean(const std::vector<Report>& reports, Field field) {
  double sum = 0;
  for (const Report& report : reports) sum += field(report);
  return sum / static_cast<double>(reports.size());
}

// As it is once it has travelled, so that who made a report and who reads it print the same.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json accuracy_or_null(double accuracy) { return accuracy < 0 ? Json(nullptr) : Json(accuracy); }

std::vector<LinkReport> links_of(const std::vector<WorkerReport>& workers, const std::vector<ServerReport>& servers) {
  std::vector<LinkReport> links;
  for (const WorkerReport& worker : workers) links.push_back(worker.link);
  for (const ServerReport& server : servers)
    if (server.shares_process == 0) links.push_back(server.link);
  return links;
}

template <typename Many, typename Field>
std::int64_t sum_of(const Many& many, Field field) {
  std::int64_t total = 0;
  for (const auto& one : many) total += std::invoke(field, one);
  return total;
}

// How often urgency decided, at each of the places where it can.
Json ordering(const job::JobSpec& settings, const std::vector<WorkerReport>& workers, const std::vector<ServerReport>& servers) {
  const std::vector<LinkReport> links = links_of(workers, servers);
  return {{"places", to_text(settings.schedule.places)},
          {"worker_egress", sum_of(workers, [](const WorkerReport& worker) { return worker.link.overtakes; })},
          {"server_ingress", sum_of(servers, &ServerReport::reorderings)},
          {"server_egress", sum_of(servers, [](const ServerReport& server) { return server.link.reply_overtakes; })},
          {"turns", sum_of(links, &LinkReport::turns)},
          {"window_full", sum_of(links, &LinkReport::window_full)}};
}

// What stands out among equals is worth a word: at least so many times worse than they are.
constexpr double kStandsOut = 2;

// The way between two hosts that is slower than others by far; null: none is, or there is nothing to compare it with.
Json slowest_link(const std::vector<WorkerReport>& workers, const std::vector<ServerReport>& servers) {
  struct Way {
    std::string from, to;
    double bandwidth = 0;
  };
  std::vector<double> others;
  std::optional<Way> slowest;
  const auto look_at = [&](const std::string& from, const LinkReport& link) {
    if (link.slowest.empty()) return;
    others.push_back(link.fastest_bandwidth);
    if (!slowest || link.slowest_bandwidth < slowest->bandwidth) slowest = {from, link.slowest, link.slowest_bandwidth};
  };
  for (const WorkerReport& worker : workers) look_at(fmt::format("worker {}", worker.rank), worker.link);
  for (const ServerReport& server : servers)
    if (server.shares_process == 0) look_at(fmt::format("server {}", server.rank), server.link);
  if (others.size() < 3 || slowest->bandwidth * kStandsOut > median(others)) return nullptr;
  return fmt::format("way from {} to {}: {} while something is on it, elsewhere {}", slowest->from, slowest->to,
                     to_text(BytesPerSecond{slowest->bandwidth}), to_text(BytesPerSecond{median(others)}));
}

// The server whose values wait longer than elsewhere by far, and so long that an iteration shows it; null: none.
Json slowest_server(const JobShape& shape, const std::vector<ServerReport>& servers, double iteration_seconds) {
  constexpr double kLeastShare = 0.05;  // of an iteration
  if (servers.size() < 2) return nullptr;
  const auto slowest = std::ranges::max_element(servers, {}, &ServerReport::values_wait);
  std::vector<double> others;
  for (const ServerReport& server : servers)
    if (server.rank != slowest->rank) others.push_back(server.values_wait);
  const double elsewhere = median(others);
  if (slowest->values_wait < kStandsOut * elsewhere || slowest->values_wait - elsewhere < kLeastShare * iteration_seconds)
    return nullptr;
  const auto where = shape.addresses.find(Rank{slowest->rank});
  return fmt::format("server {}{}: values wait {} before they leave, elsewhere {}", slowest->rank,
                     where == shape.addresses.end() ? "" : fmt::format(" ({})", where->second),
                     to_text(from_seconds(slowest->values_wait)), to_text(from_seconds(elsewhere)));
}

Json link_of(const job::JobSpec& settings, const std::vector<WorkerReport>& workers, const std::vector<ServerReport>& servers) {
  std::vector<double> windows, rates, round_trips;
  for (const LinkReport& link : links_of(workers, servers)) {
    windows.push_back(static_cast<double>(link.window));
    if (link.bandwidth > 0) rates.push_back(link.bandwidth);
    if (link.round_trip > 0) round_trips.push_back(link.round_trip);
  }
  return {{"rule", to_text(settings.schedule.window)},
          {"window", std::llround(windows.empty() ? 0 : lower_median(windows))},
          {"bandwidth", rates.empty() ? Json(nullptr) : Json(lower_median(rates))},
          {"round_trip", round_trips.empty() ? Json(nullptr) : Json(lower_median(round_trips))},
          {"measured", rates.size()},
          {"processes", windows.size()},
          {"slowest", slowest_link(workers, servers)}};
}

Json per_worker(const std::vector<WorkerReport>& by_rank) {
  Json workers = Json::array();
  for (const WorkerReport& worker : by_rank) {
    const double total = worker.phases.total();
    const double computing = worker.phases[Phase::kForward] + worker.phases[Phase::kBackward];
    const double waiting =
        worker.phases[Phase::kPush] + worker.phases[Phase::kPull] + worker.phases[Phase::kUpdate] + worker.phases[Phase::kWait];
    workers.push_back({{"rank", worker.rank},
                       {"iterations", worker.iterations},
                       {"seconds", total},
                       {"computing", computing},
                       {"waiting", waiting},
                       {"waiting_barrier", worker.phases[Phase::kWait]},
                       {"waiting_parameters", waiting - worker.phases[Phase::kWait]},
                       {"waiting_share", total > 0 ? waiting / total : 0},
                       {"peak_bytes", worker.peak_bytes}});
  }
  return workers;
}

Json per_server(const std::vector<ServerReport>& reports) {
  Json servers = Json::array();
  for (const ServerReport& server : reports) {
    servers.push_back({{"rank", server.rank},
                       {"updates", server.updates},
                       {"values_wait", server.values_wait},
                       {"gradient_bytes_high", server.gradient_bytes_high},
                       {"peak_bytes", server.peak_bytes}});
  }
  return servers;
}

Json evaluations_json(const WorkerReport& worker) {
  Json evaluations = Json::array();
  for (const WorkerReport::Evaluation& one : worker.evaluations) {
    evaluations.push_back({{"iteration", one.iteration}, {"seconds", one.seconds}, {"accuracy", accuracy_or_null(one.accuracy)}});
  }
  return evaluations;
}

// One server knows the pace.
Json sync_detail(const std::vector<ServerReport>& servers) {
  for (const ServerReport& server : servers) {
    if (!server.pace.is_null()) return server.pace;
  }
  return nullptr;
}

// Whether workers and servers are processes of their own.
Json role_of(const JobShape& shape) {
  if (shape.servers == 0) return nullptr;
  if (shape.both == 0) return "separate";
  return shape.both == shape.workers && shape.both == shape.servers ? "both" : "mixed";
}

}  // namespace

const char* to_string(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

double PhaseSeconds::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

void add_evaluation(std::vector<WorkerReport::Evaluation>& evaluations, const WorkerReport::Evaluation& next) {
  constexpr std::size_t kMost = 10'000;
  if (evaluations.size() == kMost) {
    for (std::size_t i = 0; i < kMost / 2; ++i) evaluations[i] = evaluations[2 * i];
    evaluations.resize(kMost / 2);
  }
  evaluations.push_back(next);
}

Json batching_json(scheduling::BatchingAlgorithm algorithm, const scheduling::LiveProfile::Plan& plan) {
  const scheduling::BatchingProblem& problem = plan.problem;
  const double layer_wise = scheduling::makespan(problem, scheduling::layer_wise_batching(problem));
  const double at_once = scheduling::makespan(problem, scheduling::default_batching(problem));
  std::string why = fmt::format(
      "of {} layers {} pulls, planned to take {} with the forward pass; layer by layer {}, all at once {}", problem.compute.size(),
      plan.bounds.size(), to_text(from_seconds(plan.makespan)), to_text(from_seconds(layer_wise)), to_text(from_seconds(at_once)));
  Json push = nullptr;
  if (plan.push) {
    const scheduling::BatchingProblem& pushes = plan.push->problem;
    push = {{"bounds", plan.push->bounds},
            {"makespan", plan.push->makespan},
            {"makespan_layer_wise", scheduling::makespan(pushes, scheduling::layer_wise_batching(pushes))},
            {"makespan_default", scheduling::makespan(pushes, scheduling::default_batching(pushes))}};
    why += fmt::format("; {} pushes, planned to take {} with the backward pass", plan.push->bounds.size(),
                       to_text(from_seconds(plan.push->makespan)));
  }
  return {{"algorithm", scheduling::to_string(algorithm)},
          {"bounds", plan.bounds},
          {"makespan", plan.makespan},
          {"makespan_layer_wise", layer_wise},
          {"makespan_default", at_once},
          {"start_up", plan.link.start_up},
          {"bandwidth", plan.link.bandwidth.value},
          {"residual", plan.link.residual},
          {"planned", plan.number},
          {"push", push},
          {"why", std::move(why)}};
}

Result<Json> job_report(const job::JobSpec& settings, const JobShape& shape, const std::vector<WorkerReport>& by_rank,
                        const std::vector<ServerReport>& servers) {
  PACELINE_CHECK(!by_rank.empty(), "a job has a worker");
  for (const WorkerReport& worker : by_rank) {
    if (worker.parameters_hash != by_rank[0].parameters_hash) {
      return error(
          ErrorKind::kCorrupt,
          "workers 0 and {} hold different parameters at the end ({} against {}); this must not happen, do not use the model",
          worker.rank, by_rank[0].parameters_hash, worker.parameters_hash);
    }
  }
  std::int64_t iterations = 0, samples = 0, pushed = 0, pulled = 0;
  double longest = 0, together = 0;
  IterationTimes times;
  for (const WorkerReport& worker : by_rank) {
    iterations = std::max(iterations, worker.iterations);
    samples += worker.samples;
    pushed += worker.bytes_pushed;
    pulled += worker.bytes_pulled;
    longest = std::max(longest, worker.phases.total());
    together += worker.phases.total();
    times.add(worker.iteration_seconds);
  }
  const bool reference = shape.processes == JobShape::Processes::kOne;
  const double trained = reference ? together : longest;
  const auto per_iteration = [](double seconds, const WorkerReport& w) {
    return w.iterations > 0 ? seconds / static_cast<double>(w.iterations) : 0;
  };
  Json phases = Json::object();
  for (std::size_t i = 0; i < kPhases; ++i)
    phases[kPhaseNames[i]] = mean(by_rank, [&](const WorkerReport& w) { return per_iteration(w.phases.seconds[i], w); });
  const double accuracy = by_rank[0].accuracy;
  return Json{{"model", settings.task.model},
              {"dataset", settings.task.dataset},
              {"workers", shape.workers},
              {"servers", shape.servers},
              {"role", role_of(shape)},
              {"schedule", reference                ? "reference"
                           : settings.has_servers() ? settings.schedule.name
                                                    : to_string(*settings.loop.loop)},
              {"batching", by_rank[0].batching},
              {"tuned", nullptr},
              {"collective", nullptr},
              {"ordering", reference ? Json(nullptr) : ordering(settings, by_rank, servers)},
              {"link", reference ? Json(nullptr) : link_of(settings, by_rank, servers)},
              {"strangers", reference ? Json(nullptr) : Json(sum_of(links_of(by_rank, servers), &LinkReport::strangers))},
              {"wire", settings.wire.text()},
              {"loss_scale", settings.wire.loss_scale},
              {"sync", to_text(settings.sync.kind)},
              {"sync_detail", sync_detail(servers)},
              {"optimizer", tensor::name_of(settings.update.optimizer.kind)},
              {"seed", settings.task.seed},
              {"iterations", iterations},
              {"samples", samples},
              {"seconds", trained},
              {"samples_per_second", trained > 0 ? static_cast<double>(samples) / trained : 0},
              {"loss_first", finite_or_null(mean(by_rank, [](const WorkerReport& w) { return w.loss_first; }))},
              {"loss_last", finite_or_null(mean(by_rank, [](const WorkerReport& w) { return w.loss_last; }))},
              {"accuracy", accuracy_or_null(accuracy)},
              {"evaluations", evaluations_json(by_rank[0])},
              {"parameters_hash", by_rank[0].parameters_hash},
              {"checkpoint", nullptr},
              {"trace", nullptr},
              {"bytes_pushed", pushed},
              {"bytes_pulled", pulled},
              {"iteration_seconds", {{"median", times.median()}, {"min", times.least()}, {"max", times.most()}}},
              {"per_worker", per_worker(by_rank)},
              {"per_server", per_server(servers)},
              {"slowest_server", slowest_server(shape, servers, times.median())},
              {"phases", phases},
              {"overlapped",
               {{"push", mean(by_rank, [&](const WorkerReport& w) { return per_iteration(w.overlapped_push, w); })},
                {"pull", mean(by_rank, [&](const WorkerReport& w) { return per_iteration(w.overlapped_pull, w); })}}}};
}

std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace paceline::report
