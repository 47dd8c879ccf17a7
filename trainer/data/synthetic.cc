#include "trainer/data/synthetic.h"

#include <algorithm>
#include <array>

#include "base/random.h"

namespace paceline::trainer::data {
namespace {

enum Randomness : std::uint64_t { kFields = 1, kGrain = 2, kNoise = 3 };
constexpr std::int64_t kFieldsPerSide = 4;

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const SyntheticOptions& options, std::int64_t first, std::int64_t count)
      : options_(options), first_(first), count_(count) {
    const auto channels = static_cast<std::size_t>(options.channels);
    form_ = {.content = Content::kImages,
             .shape = {options.channels, options.height, options.width},
             .classes = options.classes,
             .normalisation = {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)}};
  }

  std::int64_t size() const override { return count_; }
  const Form& form() const override { return form_; }

  Status load(std::int64_t index, Sample& sample) const override {
    PACELINE_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const auto number = static_cast<std::uint64_t>(first_ + index);
    const auto label = number % static_cast<std::uint64_t>(options_.classes);
    sample.target.assign(1, static_cast<std::int64_t>(label));
    sample.pixels.resize(static_cast<std::size_t>(input_values(form_)));
    Random noise(random_at(options_.seed, {kNoise, number}));
    Random grain(random_at(options_.seed, {kGrain, label}));
    std::size_t at = 0;
    for (std::int64_t c = 0; c < options_.channels; ++c) {
      for (std::int64_t y = 0; y < options_.height; ++y) {
        const auto row = fields_of_row(label, c, y * kFieldsPerSide / options_.height);
        for (std::int64_t x = 0; x < options_.width; ++x) {
          const std::int64_t fine = static_cast<std::int64_t>(grain.next() % 33) - 16;
          const std::int64_t value = row[static_cast<std::size_t>(x * kFieldsPerSide / options_.width)] + fine + bell(noise.next());
          sample.pixels[at++] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255));
        }
      }
    }
    return {};
  }

 private:
  std::array<std::int64_t, kFieldsPerSide> fields_of_row(std::uint64_t label, std::int64_t channel, std::int64_t field_row) const {
    std::array<std::int64_t, kFieldsPerSide> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto field = static_cast<std::uint64_t>((channel * kFieldsPerSide + field_row) * kFieldsPerSide) + i;
      values[i] = 64 + static_cast<std::int64_t>(random_at(options_.seed, {kFields, label, field}) % 128);
    }
    return values;
  }

  // Four bytes added up look like a bell; 0 on average, deviation 148 / 5.25 = 28.
  static std::int64_t bell(std::uint64_t random) {
    std::int64_t sum = -510;
    for (int i = 0; i < 4; ++i, random >>= 8) sum += static_cast<std::int64_t>(random & 255);
    return sum * 4 / 21;
  }

  SyntheticOptions options_;
  std::int64_t first_, count_;
  Form form_;
};

Status check(const char* what, std::int64_t value, std::int64_t largest, const std::string& name) {
  if (value >= 1 && value <= largest) return {};
  return error(ErrorKind::kBadRequest, "{}: {} is {}, expected 1..{}", name, what, value, largest);
}

}  // namespace

Result<DatasetPair> open_synthetic(const SyntheticOptions& options, const std::string& name) {
  constexpr std::int64_t kSide = 65536, kValues = 1 << 24;
  constexpr std::int64_t kSamples = 100'000'000;  // a worker keeps their order: 8 bytes each
  PACELINE_RETURN_IF_ERROR(check("the number of channels", options.channels, kSide, name));
  PACELINE_RETURN_IF_ERROR(check("the height", options.height, kSide, name));
  PACELINE_RETURN_IF_ERROR(check("the width", options.width, kSide, name));
  PACELINE_RETURN_IF_ERROR(
      check("the number of values of a sample", options.channels * options.height * options.width, kValues, name));
  PACELINE_RETURN_IF_ERROR(check("'classes'", options.classes, 1 << 20, name));
  PACELINE_RETURN_IF_ERROR(check("'samples'", options.samples, kSamples, name));
  PACELINE_RETURN_IF_ERROR(check("'test'", options.test, kSamples, name));
  return DatasetPair{.name = name,
                     .train = std::make_shared<SyntheticDataset>(options, 0, options.samples),
                     .test = std::make_shared<SyntheticDataset>(options, options.samples, options.test)};
}

}  // namespace paceline::trainer::data
