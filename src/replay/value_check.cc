#include "replay/value_check.h"

#include <algorithm>
#include <cmath>

#include "replay/table.h"

namespace paceline::replay {
namespace {

// Far above what rounding does to some 10 000 updates, far below what one gradient does.
constexpr float kTolerance = 1e-3f;

wire::TensorTable one_period() { return tensors_of({{{"period", kPeriod, 0, 0}}}); }

}  // namespace

Result<ValueCheck> ValueCheck::make(const job::JobSpec& settings, Rank rank, std::int32_t workers) {
  wire::TensorTable period = one_period();
  PACELINE_ASSIGN_OR_RETURN(const training::UpdateRules rules, training::update_rules(settings, period));
  std::optional<collectives::TrainingOptions> training;
  if (!settings.has_servers()) {
    PACELINE_ASSIGN_OR_RETURN(training, job::training_of(settings));
  }
  ValueCheck check(Values(static_cast<std::uint64_t>(settings.task.seed)), rules,
                   collectives::GradientAdditions(training, workers, settings.update.verdict), rank, workers);
  check.exact_ = settings.sync.kind == sync::SyncKind::kBsp;
  check.sync_ = settings.sync;
  check.rate_ = rules.learning_rate.base;
  return check;
}

ValueCheck::ValueCheck(Values values, const training::UpdateRules& rules, collectives::GradientAdditions additions, Rank rank,
                       std::int32_t workers)
    : values_(std::move(values)),
      rank_(rank),
      additions_(std::move(additions)),
      gradients_(static_cast<std::size_t>(workers), std::vector<float>(kPeriod)) {
  for (const collectives::Additions& order : additions_.orders()) {
    Expected& expected = expected_.emplace_back(training::ReferenceUpdate(rules, one_period(), order),
                                                std::vector(values_.initial().begin(), values_.initial().end()));
    expected.update.begin(expected.period);
  }
}

Status ValueCheck::on_iteration(Iteration iteration) {
  // Where gradients are averaged, and in the first iterations of ElasticBSP, a push moves the values by its share.
  const bool summed = sync_.kind == sync::SyncKind::kElasticBsp && iteration <= sync_.history;
  const bool shared = sync_.scale == sync::GradientScale::kMean || (summed && sync_.scale == sync::GradientScale::kOfModel);
  own_ += rate_ * values_.size(rank_, iteration) / (shared ? static_cast<double>(gradients_.size()) : 1.0);
  if (!exact_) return {};
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker)
    values_.make_gradient(Rank{static_cast<std::int32_t>(worker)}, iteration, gradients_[worker]);
  const std::vector used(gradients_.size(), std::vector<char>{1});
  for (Expected& expected : expected_)
    PACELINE_RETURN_IF_ERROR(expected.update.apply(iteration, gradients_, used, expected.period));
  return {};
}

std::optional<ValueCheck::Difference> ValueCheck::find_difference(std::int64_t offset, std::span<const float> values,
                                                                  Part& part) const {
  if (values.empty()) return std::nullopt;
  if (!exact_) return find_off_line(offset, values, part);
  const std::vector<float>& period = expected_[part.order].period;
  const auto index = first_difference(period, offset, values);
  if (!index) return std::nullopt;
  return Difference{*index, period[static_cast<std::size_t>((offset + static_cast<std::int64_t>(*index)) % kPeriod)]};
}

std::optional<ValueCheck::Difference> ValueCheck::find_off_line(std::int64_t offset, std::span<const float> values,
                                                                Part& part) const {
  const auto initial = values_.initial(), direction = values_.direction();
  auto at = static_cast<std::size_t>(offset % kPeriod);
  const float least = std::max(part.along, static_cast<float>(own_));
  const float along = (initial[at] - values[0]) / direction[at];
  const float tolerance = kTolerance * (1 + std::abs(along));
  if (!(along >= least - tolerance)) return Difference{0, initial[at] - least * direction[at]};
  for (std::size_t begin = 0; begin < values.size();) {
    const std::size_t run = std::min(static_cast<std::size_t>(kPeriod) - at, values.size() - begin);
    bool wrong = false;
    for (std::size_t i = 0; i < run; ++i) {
      const float off = std::abs(values[begin + i] - (initial[at + i] - along * direction[at + i]));
      wrong |= !(off <= tolerance);  // a NaN is wrong
    }
    for (std::size_t i = 0; wrong && i < run; ++i) {
      const float expected = initial[at + i] - along * direction[at + i];
      if (!(std::abs(values[begin + i] - expected) <= tolerance)) return Difference{begin + i, expected};
    }
    begin += run;
    at = 0;
  }
  part.along = along;
  return std::nullopt;
}

}  // namespace paceline::replay
