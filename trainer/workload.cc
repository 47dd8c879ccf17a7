#include "trainer/workload.h"

#include <numeric>

#include <fmt/ranges.h>

#include <torch/torch.h>

#include "base/checksum.h"
#include "base/random.h"
#include "model/description.h"
#include "trainer/models/convolution.h"

namespace paceline::trainer {
namespace {

constexpr std::int64_t kEvaluationBatch = 250;

// A data set fits a network when the sizes agree and the network knows at least as many classes.
Status fits(const model::ModelDescription& model, const data::DatasetPair& data) {
  const data::Form& form = data.train->form();
  const bool wants_text = model.input.size() == 2;
  if (wants_text != (form.content == data::Content::kText)) {
    return error(ErrorKind::kBadRequest, "model '{}' learns from {}, data set '{}' holds {}", model.name,
                 wants_text ? "text" : "images", data.name, to_string(form.content));
  }
  if (!wants_text && form.shape != model.input) {
    return error(ErrorKind::kBadRequest, "model '{}' takes images of {}, data set '{}' holds {}", model.name,
                 fmt::join(model.input, "x"), data.name, fmt::join(form.shape, "x"));
  }
  if (form.classes > model.classes) {
    return error(ErrorKind::kBadRequest, "model '{}' knows {} classes, data set '{}' has {}", model.name, model.classes, data.name,
                 form.classes);
  }
  if (wants_text && form.source_vocabulary > model.source_words) {
    return error(ErrorKind::kBadRequest, "model '{}' knows {} words of the source, data set '{}' has {}", model.name,
                 model.source_words, data.name, form.source_vocabulary);
  }
  return {};
}

// Two samples are enough to see the layers' order, and BatchNorm needs more than one.
Result<data::MiniBatch> probe(const data::Dataset& dataset) {
  const SystemClock clock;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min<std::int64_t>(2, dataset.size())));
  std::iota(indices.begin(), indices.end(), 0);
  data::MiniBatch batch;
  PACELINE_RETURN_IF_ERROR(assemble(dataset, indices, clock, batch));
  return batch;
}

}  // namespace

Result<std::unique_ptr<Workload>> Workload::open(const job::JobSpec& settings, std::int32_t workers,
                                                 const std::filesystem::path& data_root) {
  // One thread per worker: more would fight for the cores, and another number of threads gives other bits.
  at::set_num_threads(1);
  auto workload = std::unique_ptr<Workload>(new Workload);
  workload->settings_ = settings;
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription description, model::describe(settings.task.model));
  PACELINE_RETURN_IF_ERROR(description.check_mini_batch(settings.task.mini_batch));
  PACELINE_ASSIGN_OR_RETURN(workload->data_, data::open(settings.task.dataset, data_root));
  PACELINE_RETURN_IF_ERROR(fits(description, workload->data_));
  if (workers != 0) PACELINE_RETURN_IF_ERROR(workload->share_among(workers));
  return workload;
}

Status Workload::make_network() {
  torch::manual_seed(static_cast<std::uint64_t>(settings_.task.seed));
  PACELINE_ASSIGN_OR_RETURN(network_, models::make(settings_.task.model));
  PACELINE_RETURN_IF_ERROR(models::run_convolutions(*network_, settings_.task.convolutions));
  network_->train();
  PACELINE_ASSIGN_OR_RETURN(const data::MiniBatch batch, probe(*data_.train));
  const Tensors tensors = to_tensors(batch);
  const auto dry_run = [&] { network_->loss(tensors.input, tensors.target); };
  PACELINE_ASSIGN_OR_RETURN(adapter_, ModuleAdapter::make(*network_, dry_run));
  return {};
}

Status Workload::share_among(std::int32_t workers) {
  const data::SamplerOptions options{
      .seed = static_cast<std::uint64_t>(settings_.task.seed), .workers = workers, .mini_batch = settings_.task.mini_batch};
  PACELINE_ASSIGN_OR_RETURN(data::Sampler sampler, data::Sampler::make(*data_.train, options));
  last_iteration_ =
      settings_.task.iterations > 0 ? settings_.task.iterations : settings_.task.epochs * sampler.iterations_per_data_epoch();
  sampler_ = std::move(sampler);
  return {};
}

Result<std::unique_ptr<data::Loader>> Workload::start_loader(Rank rank, Iteration first, const Clock& clock) const {
  return data::Loader::start(
      data_.train, *sampler_,
      {.rank = rank, .first = first, .last = last_iteration_, .depth = prefetch_, .threads = loader_threads_}, clock);
}

Result<std::unique_ptr<data::Loader>> Workload::start_loader_of_handed_out(const Clock& clock) const {
  return data::Loader::start(
      data_.train, *sampler_,
      {.last = last_iteration_, .depth = prefetch_, .threads = loader_threads_, .source = data::LoaderOptions::Source::kHandedOut},
      clock);
}

Workload::Tensors Workload::to_tensors(const data::MiniBatch& batch) {
  Tensors tensors;
  if (!batch.inputs.empty()) {
    tensors.input = torch::empty(batch.input_shape, torch::kFloat32);
    std::memcpy(tensors.input.data_ptr<float>(), batch.inputs.data(), batch.inputs.size() * sizeof(float));
  } else {
    tensors.input = torch::empty(batch.input_shape, torch::kInt64);
    std::memcpy(tensors.input.data_ptr<std::int64_t>(), batch.tokens.data(), batch.tokens.size() * sizeof(std::int64_t));
  }
  tensors.target = torch::empty(batch.target_shape, torch::kInt64);
  std::memcpy(tensors.target.data_ptr<std::int64_t>(), batch.targets.data(), batch.targets.size() * sizeof(std::int64_t));
  return tensors;
}

void Workload::seed(Iteration iteration, Rank rank) const {
  torch::manual_seed(random_at(static_cast<std::uint64_t>(settings_.task.seed),
                               {static_cast<std::uint64_t>(rank.value), static_cast<std::uint64_t>(iteration)}));
}

Result<double> Workload::evaluate(const Clock& clock) {
  torch::NoGradGuard no_gradients;
  network_->eval();
  models::Score sum;
  data::MiniBatch batch;
  for (std::int64_t begin = 0; begin < data_.test->size(); begin += kEvaluationBatch) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kEvaluationBatch, data_.test->size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    PACELINE_RETURN_IF_ERROR(assemble(*data_.test, indices, clock, batch));
    const Tensors tensors = to_tensors(batch);
    const models::Score score = network_->score(tensors.input, tensors.target);
    sum.correct += score.correct;
    sum.total += score.total;
  }
  network_->train();
  if (sum.total == 0) return -1.0;  // no test half: nothing to say
  return static_cast<double>(sum.correct) / static_cast<double>(sum.total);
}

Workload::Snapshot Workload::snapshot() const {
  const torch::NoGradGuard no_gradients;
  Snapshot snapshot;
  for (const torch::Tensor& parameter : network_->parameters()) snapshot.push_back(parameter.detach().clone());
  for (const torch::Tensor& buffer : network_->buffers()) snapshot.push_back(buffer.clone());
  return snapshot;
}

void Workload::restore(const Snapshot& snapshot) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> state = network_->parameters();
  for (const torch::Tensor& buffer : network_->buffers()) state.push_back(buffer);
  PACELINE_CHECK(state.size() == snapshot.size(), "a snapshot of {} tensors for {}", snapshot.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) state[i].copy_(snapshot[i]);
}

std::string Workload::parameters_hash() {
  Hash128 hash;
  hash.update(std::as_bytes(adapter_->parameters()));
  return hash.hex();
}

}  // namespace paceline::trainer
