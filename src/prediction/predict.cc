#include "prediction/predict.h"

#include <algorithm>
#include <cmath>

#include "cost/lower_bound.h"
#include "paramserver/core/job_plan.h"
#include "prediction/virtual_cluster.h"
#include "scheduling/batching.h"

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

// The batches a worker would find by itself once it knows its times; `compute`: of the forward or of the backward pass.
scheduling::Bounds batches(const std::vector<double>& compute, const Cluster& cluster, const std::vector<Bytes>& bytes) {
  scheduling::BatchingProblem problem{.start_up = cluster.start_up * cluster.servers, .transfer = {}, .compute = compute};
  for (const Bytes size : bytes) problem.transfer.push_back(static_cast<double>(size.count) / cluster.link.value);
  return exact_batching(problem);
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
  if (schedule.back == scheduling::Return::kPullInBatches) nodes.set_batches(batches(job.forward, cluster, bytes));
  if (schedule.push == scheduling::PushWhen::kInBatches) nodes.set_push_batches(batches(job.backward, cluster, bytes));
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
