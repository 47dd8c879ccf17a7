#include "bench/prediction/scale_bench.h"

#include <ctime>

#include "replay/table.h"
#include "report/report.h"
#include "scheduling/unit_plan.h"
#include "simulation/predict.h"

namespace paceline::bench {
namespace {

// Of this thread.
double processor_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

// The start-up and processing of a message that `tuned` assumes at least, and a server's work on a byte as it is measured about.
constexpr double kStartUp = 50e-6, kProcessing = 30e-6, kAggregation = 1e-10;

}  // namespace

Result<ScaleBenchReport> run_scale_bench(const ScaleBenchOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const replay::LayerTable table, replay::read_table(options.table));
  PACELINE_ASSIGN_OR_RETURN(const auto schedule, scheduling::parse_schedule_name(options.schedule));
  simulation::Job job{.table = replay::tensors_of(table)};
  PACELINE_ASSIGN_OR_RETURN(job.sync.kind, sync::parse_sync_kind(options.sync));
  std::vector<scheduling::TensorExtent> extents;
  for (std::size_t layer = 0; layer < table.layers.size(); ++layer) {
    job.forward.push_back(table.layers[layer].forward);
    job.backward.push_back(table.layers[layer].backward);
    extents.push_back({table.layers[layer].parameters, Layer{static_cast<std::int32_t>(layer)}});
  }
  PACELINE_ASSIGN_OR_RETURN(const auto units, scheduling::make_unit_plan(extents, schedule.cut, options.servers));
  const simulation::Cluster cluster{.workers = options.workers,
                                    .servers = options.servers,
                                    .link = {options.bytes_per_second},
                                    .start_up = kStartUp,
                                    .processing = kProcessing,
                                    .aggregation = kAggregation};
  ScaleBenchReport report{.units = static_cast<std::int64_t>(units.units.size())};
  const double began = processor_seconds();
  PACELINE_ASSIGN_OR_RETURN(report.iteration, simulation::predict_job(job, schedule, cluster, 1));
  report.seconds = processor_seconds() - began;
  report.peak_bytes = static_cast<double>(report::peak_memory());
  return report;
}

}  // namespace paceline::bench
