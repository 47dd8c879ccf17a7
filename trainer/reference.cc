#include "trainer/reference.h"

#include <torch/torch.h>

#include "training/reference_update.h"

namespace paceline::trainer {
namespace {

// One of the W workers that share the process: its own data, buffers (BatchNorm) and gradient.
struct VirtualWorker {
  std::unique_ptr<data::Loader> loader;
  std::vector<torch::Tensor> buffers;
  std::vector<float> gradient;
  std::vector<char> used;  // by tensor
  report::WorkerReport report;
};

void copy_buffers(const ModuleAdapter& adapter, std::vector<torch::Tensor>& saved, bool restore) {
  torch::NoGradGuard no_gradients;
  const auto buffers = adapter.buffers();
  if (saved.empty()) {
    for (const auto& [name, buffer] : buffers) saved.push_back(buffer.clone());
    return;
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    torch::Tensor buffer = buffers[i].second;
    if (restore)
      buffer.copy_(saved[i]);
    else
      saved[i].copy_(buffer);
  }
}

// Rank 0 tells of the run, whose seconds are those of all virtual workers.
void note(Iteration iteration, double accuracy, std::vector<VirtualWorker>& workers) {
  double trained = 0;
  for (const VirtualWorker& worker : workers) trained += worker.report.phases.total();
  report::WorkerReport& report = workers.front().report;
  report.accuracy = accuracy;
  report::add_evaluation(report.evaluations, {iteration, trained, accuracy});
}

}  // namespace

Result<std::vector<report::WorkerReport>> run_reference(Workload& workload, const job::JobSpec& settings, std::int32_t workers,
                                                        const std::function<void(const Progress&)>& progress,
                                                        const std::function<bool()>& stopped) {
  using report::Phase;
  const SystemClock clock;
  ModuleAdapter& adapter = workload.adapter();
  wire::TensorTable table = adapter.table();
  PACELINE_ASSIGN_OR_RETURN(const training::UpdateRules rules, training::update_rules(settings, table));
  training::ReferenceUpdate update(rules, table);
  update.begin(adapter.parameters());
  NoObserver observer;

  std::vector<VirtualWorker> virtual_workers(static_cast<std::size_t>(workers));
  for (std::int32_t rank = 0; rank < workers; ++rank) {
    VirtualWorker& worker = virtual_workers[static_cast<std::size_t>(rank)];
    PACELINE_ASSIGN_OR_RETURN(worker.loader, workload.start_loader(Rank{rank}, 1, clock));
    copy_buffers(adapter, worker.buffers, false);
    worker.gradient.resize(adapter.gradients().size());
    worker.report.rank = rank;
  }
  std::vector<std::vector<float>> gradients(virtual_workers.size());
  std::vector<std::vector<char>> used(virtual_workers.size());

  for (Iteration iteration = 1; iteration <= workload.last_iteration(); ++iteration) {
    const TimePoint began = clock.now();
    double loss_sum = 0;
    for (VirtualWorker& worker : virtual_workers) {
      TimePoint mark = clock.now();
      const auto phase = [&](Phase which) {
        const TimePoint now = clock.now();
        worker.report.phases[which] += seconds(now - mark);
        mark = now;
      };
      PACELINE_ASSIGN_OR_RETURN(const data::MiniBatch* batch, worker.loader->next());
      phase(Phase::kLoad);
      const Workload::Tensors tensors = workload.to_tensors(*batch);
      phase(Phase::kTransfer);
      copy_buffers(adapter, worker.buffers, true);
      workload.seed(iteration, Rank{worker.report.rank});
      torch::Tensor loss;
      PACELINE_RETURN_IF_ERROR(adapter.run_forward(observer, [&] { loss = workload.loss(tensors); }));
      const double value = loss.item<double>();
      phase(Phase::kForward);
      const std::vector<int> unused = adapter.run_backward(observer, [&] { loss.backward(); });
      copy_buffers(adapter, worker.buffers, false);
      worker.gradient.assign(adapter.gradients().begin(), adapter.gradients().end());
      worker.used.assign(adapter.table().tensors.size(), 1);
      for (const int tensor : unused) worker.used[static_cast<std::size_t>(tensor)] = 0;
      phase(Phase::kBackward);
      if (iteration == 1) worker.report.loss_first = value;
      worker.report.loss_last = value;
      worker.report.samples += static_cast<std::int64_t>(batch->indices.size());
      worker.report.iterations = iteration;
      loss_sum += value;
      gradients[static_cast<std::size_t>(worker.report.rank)].swap(worker.gradient);
      used[static_cast<std::size_t>(worker.report.rank)].swap(worker.used);
    }
    const TimePoint before_update = clock.now();
    PACELINE_RETURN_IF_ERROR(update.apply(iteration, gradients, used, adapter.parameters()));
    const TimePoint after_update = clock.now();
    // The virtual workers take turns, so that the seconds of one are a share of the whole and all of them together are the run's.
    for (VirtualWorker& worker : virtual_workers) {
      worker.report.phases[Phase::kUpdate] += seconds(after_update - before_update) / workers;
      worker.report.iteration_seconds.add(seconds(after_update - began));
    }

    Progress now{iteration, workload.last_iteration(), loss_sum / workers, -1};
    const bool last = iteration == workload.last_iteration() || stopped();
    if (last || (settings.task.evaluate_every > 0 && iteration % settings.task.evaluate_every == 0)) {
      copy_buffers(adapter, virtual_workers[0].buffers, true);
      PACELINE_ASSIGN_OR_RETURN(now.accuracy, workload.evaluate(clock));
      note(iteration, now.accuracy, virtual_workers);
    }
    progress(now);
    if (last) break;
  }

  std::vector<report::WorkerReport> reports;
  for (VirtualWorker& worker : virtual_workers) {
    worker.report.parameters_hash = workload.parameters_hash();
    worker.report.peak_bytes = report::peak_memory();
    reports.push_back(worker.report);
  }
  return reports;
}

}  // namespace paceline::trainer
