#include "trainer/data/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::trainer::data {

const char* to_string(Content content) { return content == Content::kImages ? "images" : "text"; }

std::int64_t input_values(const Form& form) {
  PACELINE_CHECK(form.content == Content::kImages && form.shape.size() == 3, "only images have a fixed number of input values");
  return form.shape[0] * form.shape[1] * form.shape[2];
}

Status Dataset::decode(std::int64_t, Sample&) const { return {}; }
std::int64_t Dataset::length(std::int64_t) const { return 0; }
Status Dataset::verify() const { return {}; }

Status Dataset::read(std::int64_t index, std::span<float> input, std::span<std::int64_t> target) const {
  PACELINE_CHECK(target.size() == 1, "an image has one label, not {}", target.size());
  Sample sample;
  PACELINE_RETURN_IF_ERROR(load(index, sample));
  PACELINE_RETURN_IF_ERROR(decode(index, sample));
  Normaliser(form()).apply(sample.pixels, input);
  target[0] = sample.target.front();
  return {};
}

std::vector<std::pair<std::string, std::string>> described(const DatasetPair& pair) {
  const Form& form = pair.train->form();
  if (form.content != Content::kImages) {
    return {
        {"input", fmt::format("text: ids of words, {} of the source and {} of the target", form.source_vocabulary, form.classes)}};
  }
  std::vector<std::pair<std::string, std::string>> lines = {
      {"input", fmt::format("{} x {} x {} float32 (channels x height x width): (byte / 255 - mean) / deviation", form.shape[0],
                            form.shape[1], form.shape[2])},
      {"mean", fmt::format("{}", fmt::join(form.normalisation.mean, " "))},
      {"deviation", fmt::format("{}", fmt::join(form.normalisation.deviation, " "))}};
  if (!pair.preparation.empty()) lines.emplace_back("preparation", pair.preparation);
  lines.emplace_back("classes", std::to_string(form.classes));
  if (!pair.class_names.empty()) lines.emplace_back("class_names", fmt::format("{}", fmt::join(pair.class_names, "\n")));
  return lines;
}

Normaliser::Normaliser(const Form& form) : plane_(static_cast<std::size_t>(form.shape.at(1) * form.shape.at(2))) {
  const auto channels = static_cast<std::size_t>(form.shape.at(0));
  PACELINE_CHECK(form.normalisation.mean.size() == channels && form.normalisation.deviation.size() == channels,
                 "{} channels, but {} means and {} deviations", channels, form.normalisation.mean.size(),
                 form.normalisation.deviation.size());
  table_.resize(channels * 256);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      table_[channel * 256 + byte] =
          (static_cast<float>(byte) / 255.0f - form.normalisation.mean[channel]) / form.normalisation.deviation[channel];
    }
  }
}

void Normaliser::apply(std::span<const std::uint8_t> pixels, std::span<float> input) const {
  const std::size_t channels = table_.size() / 256;
  PACELINE_CHECK(pixels.size() == channels * plane_ && input.size() == pixels.size(), "{} pixels into {} values, {} expected",
                 pixels.size(), input.size(), channels * plane_);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const float* table = table_.data() + channel * 256;
    const std::uint8_t* from = pixels.data() + channel * plane_;
    float* to = input.data() + channel * plane_;
    for (std::size_t i = 0; i < plane_; ++i) to[i] = table[from[i]];
  }
}

}  // namespace paceline::trainer::data
