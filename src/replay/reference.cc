#include "replay/reference.h"

#include <limits>

#include "base/checksum.h"
#include "base/clock.h"
#include "replay/values.h"
#include "training/reference_update.h"

namespace paceline::replay {
namespace {

// One layer with all that its update needs, so that the gradients of only one layer are in memory at a time.
struct ReferenceLayer {
  std::int64_t offset = 0;
  std::vector<float> parameters;
  training::ReferenceUpdate update;
};

Result<std::vector<ReferenceLayer>> make_layers(const LayerTable& table, const job::JobSpec& settings, const Values& values) {
  wire::TensorTable tensors = tensors_of(table);
  PACELINE_ASSIGN_OR_RETURN(const training::UpdateRules rules, training::update_rules(settings, tensors));
  std::vector<ReferenceLayer> layers;
  std::int64_t offset = 0;
  for (const LayerRow& row : table.layers) {
    ReferenceLayer layer{offset, std::vector<float>(static_cast<std::size_t>(row.parameters)),
                         training::ReferenceUpdate(rules, tensors_of({{row}}))};
    for (std::int64_t i = 0; i < row.parameters; ++i)
      layer.parameters[static_cast<std::size_t>(i)] = values.initial()[static_cast<std::size_t>((offset + i) % kPeriod)];
    layer.update.begin(layer.parameters);
    offset += row.parameters;
    layers.push_back(std::move(layer));
  }
  return layers;
}

Status train(ReferenceLayer& layer, const Values& values, Iteration iteration, std::vector<std::vector<float>>& gradients) {
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    std::vector<float>& gradient = gradients[worker];
    gradient.resize(layer.parameters.size());
    const Rank rank{static_cast<std::int32_t>(worker)};
    const float size = values.size(rank, iteration);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = size * values.direction()[static_cast<std::size_t>((layer.offset + static_cast<std::int64_t>(i)) % kPeriod)];
  }
  return layer.update.apply(iteration, gradients, std::vector(gradients.size(), std::vector<char>{1}), layer.parameters);
}

}  // namespace

Result<std::vector<report::WorkerReport>> run_reference(const LayerTable& table, const job::JobSpec& settings, std::int32_t workers,
                                                        const std::function<void(Iteration)>& progress,
                                                        const std::function<bool()>& stopped) {
  const SystemClock clock;
  const Values values(static_cast<std::uint64_t>(settings.task.seed));
  PACELINE_ASSIGN_OR_RETURN(std::vector<ReferenceLayer> layers, make_layers(table, settings, values));
  std::vector<std::vector<float>> gradients(static_cast<std::size_t>(workers));
  report::WorkerReport report;
  report.loss_first = report.loss_last = std::numeric_limits<double>::quiet_NaN();
  for (Iteration iteration = 1; iteration <= settings.task.iterations && !stopped(); ++iteration) {
    const TimePoint began = clock.now();
    for (ReferenceLayer& layer : layers) PACELINE_RETURN_IF_ERROR(train(layer, values, iteration, gradients));
    const double took = seconds(clock.now() - began);
    report.iterations = iteration;
    report.samples += settings.task.mini_batch;
    report.phases[report::Phase::kUpdate] += took / workers;  // all workers' seconds together are the run's
    report.iteration_seconds.add(took);
    progress(iteration);
  }
  Hash128 hash;
  for (const ReferenceLayer& layer : layers) hash.update(std::as_bytes(std::span(layer.parameters)));
  report.parameters_hash = hash.hex();
  report.peak_bytes = report::peak_memory();
  std::vector<report::WorkerReport> reports(static_cast<std::size_t>(workers), report);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) reports[rank].rank = static_cast<std::int32_t>(rank);
  return reports;
}

}  // namespace paceline::replay
