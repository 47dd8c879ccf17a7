#include "prediction/predict.h"

#include <algorithm>
#include <cmath>

#include "cost/lower_bound.h"
#include "paramserver/core/job_plan.h"
#include "prediction/virtual_cluster.h"
#include "scheduling/batch_plan.h"

namespace paceline::prediction {
namespace {

constexpr std::int64_t kChunksOfAModel = 1000;

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

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
  if (!(cluster.link.value > 0) || !std::isfinite(cluster.link.value) || !is_time(cluster.start_up) ||
      !is_time(cluster.processing) || !is_time(cluster.aggregation)) {
    return error(ErrorKind::kBadRequest, "a link of {} bytes/s with a start-up of {} s, processing {} s, aggregation {} s/byte",
                 cluster.link.value, cluster.start_up, cluster.processing, cluster.aggregation);
  }
  if (cluster.layout == Cluster::Layout::kShared && cluster.workers != cluster.servers) {
    return error(ErrorKind::kBadRequest, "{} workers and {} servers cannot share nodes", cluster.workers, cluster.servers);
  }
  return {};
}

// A round trip is measured with a chunk that finds the link empty.
Bytes window_of(const scheduling::ScheduleOptions& schedule, const Cluster& cluster) {
  const double chunk = static_cast<double>(scheduling::kLargestChunk.count) / cluster.link.value;
  return window_for(scheduling::egress_rules(schedule).window, cluster.link, from_seconds(chunk + cluster.start_up));
}

// Those that each worker plans once it knows its times and its link.
void set_batches(VirtualCluster& nodes, const paramserver::JobPlan& plan, const Job& job, const Cluster& cluster) {
  const scheduling::ScheduleOptions& schedule = plan.options().schedule;
  if (schedule.back != scheduling::Return::kPullInBatches) return;
  const cost::LinkFit link{.start_up = cluster.start_up, .bandwidth = cluster.link};
  for (std::int32_t rank = 0; rank < cluster.workers; ++rank) {
    const bool shared = cluster.layout == Cluster::Layout::kShared;
    const std::vector<Bytes> bytes = plan.pulled_by_layer(shared ? std::optional(Rank{rank}) : std::nullopt);
    const auto planned = [&](const std::vector<double>& compute) {
      return batches_of(scheduling::problem_of(bytes, link, compute), schedule.batching);
    };
    nodes.set_batches(rank, planned(job.forward));
    if (schedule.push == scheduling::PushWhen::kInBatches) nodes.set_push_batches(rank, planned(job.backward));
  }
}

}  // namespace

Result<Prediction> predict(const Job& job, const scheduling::ScheduleOptions& schedule, const Cluster& cluster) {
  PACELINE_RETURN_IF_ERROR(check(job, cluster));
  paramserver::JobOptions options;
  options.workers = cluster.workers;
  options.servers = cluster.servers;
  options.schedule = schedule;
  PACELINE_ASSIGN_OR_RETURN(const auto plan, paramserver::JobPlan::make(job.table, options));

  std::vector<Bytes> bytes(job.table.layers.size());
  for (const wire::TensorInfo& tensor : job.table.tensors)
    bytes[static_cast<std::size_t>(tensor.layer.index)] += Bytes{tensor.elements() * static_cast<std::int64_t>(sizeof(float))};
  const Bytes model{plan->units().elements * static_cast<std::int64_t>(sizeof(float))};

  const Bytes window = cluster.window.value_or(window_of(schedule, cluster));
  const Bytes chunk = cluster.window ? cluster.chunk : scheduling::chunk_for(window);
  Cluster coarse = cluster;
  coarse.chunk = Bytes{std::max(chunk.count, model.count / kChunksOfAModel)};
  // As many chunks as before, or links would idle that do not.
  const double chunks = static_cast<double>(window.count) / static_cast<double>(chunk.count);
  coarse.window =
      Bytes{std::max<std::int64_t>(std::llround(chunks * static_cast<double>(coarse.chunk.count)), 2 * coarse.chunk.count)};
  VirtualCluster nodes(plan, job, coarse);
  set_batches(nodes, *plan, job, cluster);
  Prediction prediction;
  prediction.iteration = nodes.run();
  prediction.messages = nodes.messages_per_iteration();
  if (cluster.layout == Cluster::Layout::kShared) {
    // The bound counts gradients like values.
    const BytesPerSecond mean_link{cluster.link.value * 2 / (1 + job.pushed)};
    std::vector<cost::LayerLoad> loads;
    for (std::size_t layer = 0; layer < bytes.size(); ++layer)
      loads.push_back({bytes[layer], job.forward[layer], job.backward[layer]});
    prediction.lower_bound = cost::iteration_lower_bound(loads, cluster.workers, mean_link).lower_bound;
  }
  return prediction;
}

}  // namespace paceline::prediction
