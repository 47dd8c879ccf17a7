#include "trainer/data/mini_batch.h"

#include <algorithm>

namespace paceline::trainer::data {
namespace {

// Adds the time since it was made, or since the last lap, to a sum.
class Lap {
 public:
  explicit Lap(const Clock& clock) : clock_(clock), since_(clock.now()) {}
  void end(double& sum) {
    const TimePoint now = clock_.now();
    sum += seconds(now - since_);
    since_ = now;
  }

 private:
  const Clock& clock_;
  TimePoint since_;
};

Status assemble_images(const Dataset& dataset, std::span<const std::int64_t> indices, Lap& lap, MiniBatch& batch) {
  const Form& form = dataset.form();
  const auto values = static_cast<std::size_t>(input_values(form));
  const Normaliser normaliser(form);
  batch.tokens.clear();
  batch.inputs.resize(indices.size() * values);
  batch.targets.resize(indices.size());
  batch.input_shape.assign(1, static_cast<std::int64_t>(indices.size()));
  batch.input_shape.insert(batch.input_shape.end(), form.shape.begin(), form.shape.end());
  batch.target_shape.assign(1, static_cast<std::int64_t>(indices.size()));
  Sample sample;
  lap.end(batch.preprocess_seconds);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(dataset.load(indices[i], sample));
    lap.end(batch.load_seconds);
    PACELINE_RETURN_IF_ERROR(dataset.decode(indices[i], sample));
    normaliser.apply(sample.pixels, std::span(batch.inputs).subspan(i * values, values));
    batch.targets[i] = sample.target.front();
    lap.end(batch.preprocess_seconds);
  }
  return {};
}

// Rows of equal length, filled up with kPad.
void pad(std::span<const std::vector<std::int64_t>> rows, std::vector<std::int64_t>& to, std::vector<std::int64_t>& shape) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  to.assign(rows.size() * longest, kPad);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i].begin(), rows[i].end(), to.begin() + static_cast<std::ptrdiff_t>(i * longest));
  shape = {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)};
}

Status assemble_text(const Dataset& dataset, std::span<const std::int64_t> indices, Lap& lap, MiniBatch& batch) {
  std::vector<std::vector<std::int64_t>> sources(indices.size()), targets(indices.size());
  Sample sample;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(dataset.load(indices[i], sample));
    sources[i].swap(sample.tokens);
    targets[i].swap(sample.target);
  }
  lap.end(batch.load_seconds);
  batch.inputs.clear();
  pad(sources, batch.tokens, batch.input_shape);
  pad(targets, batch.targets, batch.target_shape);
  lap.end(batch.preprocess_seconds);
  return {};
}

}  // namespace

Status assemble(const Dataset& dataset, std::span<const std::int64_t> indices, const Clock& clock, MiniBatch& batch) {
  batch.iteration = 0;
  batch.indices.assign(indices.begin(), indices.end());
  batch.load_seconds = batch.preprocess_seconds = 0;
  Lap lap(clock);
  return dataset.form().content == Content::kImages ? assemble_images(dataset, indices, lap, batch)
                                                    : assemble_text(dataset, indices, lap, batch);
}

}  // namespace paceline::trainer::data
