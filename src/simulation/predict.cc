#include "simulation/predict.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "cost/lower_bound.h"
#include "job/plan.h"
#include "scheduling/batch_plan.h"
#include "simulation/virtual_cluster.h"

namespace paceline::simulation {
namespace {

constexpr std::int64_t kChunksOfAModel = 1000;

// Iterations until workers have found their pace, and until it has been seen for long enough.
constexpr VirtualCluster::Horizon kInStep{.warm_up = 2, .iterations = 5};
constexpr Iteration kUntilSettled = 40;  // at most, where they have not by then
constexpr Iteration kUneven = 10;        // counted where workers are not in step, or not always as fast
constexpr std::int64_t kMostFar = 20;    // of a staleness or lookahead, the iterations that are stepped for it

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

bool is_rate(BytesPerSecond rate) { return rate.value > 0 && std::isfinite(rate.value); }

bool is_shared(const Cluster& cluster) { return cluster.layout == Cluster::Layout::kShared; }

Status check(const Job& job, const Cluster& cluster) {
  const std::size_t layers = job.table.layers.size();
  if (job.forward.size() != layers || job.backward.size() != layers) {
    return error(ErrorKind::kBadRequest, "a profile has {} forward and {} backward times; the model has {} layers",
                 job.forward.size(), job.backward.size(), layers);
  }
  if (!std::ranges::all_of(job.forward, is_time) || !std::ranges::all_of(job.backward, is_time))
    return error(ErrorKind::kBadRequest, "a profile has a time that is negative or not finite");
  if (!(job.pushed > 0 && job.pushed <= 1))
    return error(ErrorKind::kBadRequest, "gradients of {} times the bytes of their values", job.pushed);
  PACELINE_RETURN_IF_ERROR(job::check_speeds(job.speed.by_rank, cluster.workers));
  if (!std::ranges::all_of(job.speed.by_rank, [](double speed) { return speed > 0 && std::isfinite(speed); }) ||
      !is_time(job.speed.jitter))
    return error(ErrorKind::kBadRequest, "workers compute at a speed, or with a jitter, that is out of range");
  if (!is_rate(cluster.link) || !is_time(cluster.start_up) || !is_time(cluster.processing) || !is_time(cluster.aggregation)) {
    return error(ErrorKind::kBadRequest, "a link of {} bytes/s with a start-up of {} s, processing {} s, aggregation {} s/byte",
                 cluster.link.value, cluster.start_up, cluster.processing, cluster.aggregation);
  }
  if (is_shared(cluster) && cluster.workers != cluster.servers)
    return error(ErrorKind::kBadRequest, "{} workers and {} servers cannot share nodes", cluster.workers, cluster.servers);
  const std::size_t nodes =
      static_cast<std::size_t>(cluster.workers) + static_cast<std::size_t>(is_shared(cluster) ? 0 : cluster.servers);
  if (!cluster.links.empty() && cluster.links.size() != nodes)
    return error(ErrorKind::kBadRequest, "{} links for {} nodes", cluster.links.size(), nodes);
  if (cluster.cards < 0 || (cluster.cards > 0 && !cluster.links.empty()))
    return error(ErrorKind::kBadRequest, "{} network cards, and {} links of their own", cluster.cards, cluster.links.size());
  for (std::size_t node = 0; node < cluster.links.size(); ++node) {
    if (!is_rate(cluster.links[node]))
      return error(ErrorKind::kBadRequest, "the link of node {} has {} bytes/s", node, cluster.links[node].value);
  }
  return {};
}

Result<std::shared_ptr<const job::Plan>> plan_of(const Job& job, const scheduling::ScheduleOptions& schedule,
                                                 const Cluster& cluster) {
  PACELINE_RETURN_IF_ERROR(check(job, cluster));
  job::PlanOptions options;
  options.workers = cluster.workers;
  options.servers = cluster.servers;
  options.schedule = schedule;
  options.sync = job.sync;
  if (job.holds_updates) options.update.clip_norm = 1;  // to which norm changes no message
  return job::Plan::make(job.table, options);
}

// A round trip is measured with a chunk that finds the link empty.
Bytes window_of(const scheduling::ScheduleOptions& schedule, const Cluster& cluster, BytesPerSecond rate) {
  const double chunk = static_cast<double>(scheduling::kLargestChunk.count) / rate.value;
  return window_for(scheduling::egress_rules(schedule).window, rate, from_seconds(chunk + cluster.start_up));
}

BytesPerSecond rate_of(const Cluster& cluster, std::size_t node) {
  return cluster.links.empty() ? cluster.link : cluster.links[node];
}

// What a node has of its card while the others behind it use theirs.
BytesPerSecond share_of(const Cluster& cluster, std::size_t node) {
  if (cluster.cards == 0) return rate_of(cluster, node);
  const std::int32_t nodes = cluster.workers + (is_shared(cluster) ? 0 : cluster.servers);
  return {cluster.link.value * std::min(1.0, static_cast<double>(cluster.cards) / nodes)};
}

// With coarse chunks, but as many as before, or links would idle that do not.
VirtualNetwork::Link link_of(const job::Plan& plan, const Cluster& cluster, BytesPerSecond rate) {
  const scheduling::ScheduleOptions& schedule = plan.options().schedule;
  const Bytes window = cluster.window.value_or(window_of(schedule, cluster, rate));
  const Bytes chunk = cluster.window ? cluster.chunk : scheduling::chunk_for(window);
  const Bytes model{plan.units().elements * static_cast<std::int64_t>(sizeof(float))};
  const Bytes coarse{std::max(chunk.count, model.count / kChunksOfAModel)};
  const double chunks = static_cast<double>(window.count) / static_cast<double>(chunk.count);
  return {.rate = rate,
          .egress = {
              .window = Bytes{std::max<std::int64_t>(std::llround(chunks * static_cast<double>(coarse.count)), 2 * coarse.count)},
              .wide = wide_for(scheduling::egress_rules(schedule).window, rate),
              .chunk = coarse}};
}

std::vector<VirtualNetwork::Link> links_of(const job::Plan& plan, const Cluster& cluster) {
  std::vector<VirtualNetwork::Link> links;
  const std::int32_t nodes = cluster.workers + (is_shared(cluster) ? 0 : cluster.servers);
  for (std::int32_t node = 0; node < nodes; ++node)
    links.push_back(link_of(plan, cluster, rate_of(cluster, static_cast<std::size_t>(node))));
  return links;
}

// Those that each worker plans once it knows its times and its link.
void set_batches(VirtualCluster& nodes, const job::Plan& plan, const Job& job, const Cluster& cluster) {
  const scheduling::ScheduleOptions& schedule = plan.options().schedule;
  if (schedule.back != scheduling::Return::kPullInBatches) return;
  for (std::int32_t rank = 0; rank < cluster.workers; ++rank) {
    const cost::LinkFit link{.start_up = cluster.start_up, .bandwidth = share_of(cluster, static_cast<std::size_t>(rank))};
    const std::vector<Bytes> bytes = plan.pulled_by_layer(is_shared(cluster) ? std::optional(Rank{rank}) : std::nullopt);
    const auto planned = [&](std::vector<double> compute) {
      for (double& seconds : compute) seconds *= job::typical_slowness(job.speed, Rank{rank});
      return batches_of(scheduling::problem_of(bytes, link, compute), schedule.batching);
    };
    nodes.set_batches(rank, planned(job.forward));
    if (schedule.push == scheduling::PushWhen::kInBatches) nodes.set_push_batches(rank, planned(job.backward));
  }
}

// SSP's fast workers need their staleness to come to where they wait; ElasticBSP's barriers are predicted after its history, and a
// superstep may be as long as they lie ahead.
VirtualCluster::Horizon horizon_of(const Job& job) {
  VirtualCluster::Horizon horizon = kInStep;
  Iteration counted = horizon.iterations - horizon.warm_up;
  if (job.sync.kind != sync::SyncKind::kBsp || job.speed.jitter > 0) counted = kUneven;
  if (job.sync.kind == sync::SyncKind::kSsp) horizon.warm_up += 2 * std::min(job.sync.staleness, kMostFar);
  if (job.sync.kind == sync::SyncKind::kElasticBsp) {
    horizon.warm_up += std::min(job.sync.history, kMostFar);
    counted = std::max(counted, std::min(job.sync.lookahead, kMostFar));
  }
  horizon.iterations = horizon.warm_up + counted;
  return horizon;
}

// Of the slowest worker, when all do the same iterations at a steady pace.
double lower_bound(const Job& job, const Cluster& cluster) {
  if (!is_shared(cluster) || !cluster.links.empty() || cluster.cards > 0 || job.sync.kind != sync::SyncKind::kBsp ||
      job.speed.jitter > 0)
    return 0;
  std::vector<cost::LayerLoad> loads(job.table.layers.size());
  const double slowest = job::slowest(job.speed);
  for (const wire::TensorInfo& tensor : job.table.tensors) {
    loads[static_cast<std::size_t>(tensor.layer.index)].size += Bytes{tensor.elements() * static_cast<std::int64_t>(sizeof(float))};
  }
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    loads[layer].forward = job.forward[layer] * slowest;
    loads[layer].backward = job.backward[layer] * slowest;
  }
  // The bound counts gradients like values.
  const BytesPerSecond mean_link{cluster.link.value * 2 / (1 + job.pushed)};
  const cost::LowerBound bound = cost::iteration_lower_bound(loads, cluster.workers, mean_link);
  // A faster worker may have its values later and push earlier than the slowest.
  const bool even = std::ranges::adjacent_find(job.speed.by_rank, std::not_equal_to()) == job.speed.by_rank.end();
  return even ? bound.lower_bound : std::max(bound.computation, bound.transfer);
}

}  // namespace

Iteration predicted_iterations(const Job& job) { return horizon_of(job).iterations; }

Result<Prediction> predict(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster) {
  PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_of(job, schedule, cluster));
  VirtualCluster nodes(plan, job, cluster, links_of(*plan, cluster));
  set_batches(nodes, *plan, job, cluster);
  const VirtualCluster::Pace pace = nodes.run(horizon_of(job));
  return Prediction{.iteration = pace.iteration, .lower_bound = lower_bound(job, cluster), .messages = pace.messages};
}

Result<double> predict_settled(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster) {
  if (job.sync.kind != sync::SyncKind::kBsp || job.speed.jitter > 0)
    return error(ErrorKind::kBadRequest, "only workers in step settle: bsp, without jitter");
  PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_of(job, schedule, cluster));
  VirtualCluster nodes(plan, job, cluster, links_of(*plan, cluster));
  set_batches(nodes, *plan, job, cluster);
  return nodes.run_until_settled(kUntilSettled).iteration;
}

Result<double> predict_job(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster,
                           Iteration iterations) {
  if (iterations < 1) return error(ErrorKind::kBadRequest, "a job of {} iterations", iterations);
  PACELINE_ASSIGN_OR_RETURN(const auto plan, plan_of(job, schedule, cluster));
  VirtualCluster nodes(plan, job, cluster, links_of(*plan, cluster));
  set_batches(nodes, *plan, job, cluster);
  return nodes.run_to_the_end(iterations);
}

}  // namespace paceline::simulation
