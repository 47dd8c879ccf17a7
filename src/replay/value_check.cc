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

Result<ValueCheck> ValueCheck::make(const runtime::JobSettings& settings, Rank rank, std::int32_t workers) {
  PACELINE_ASSIGN_OR_RETURN(const runtime::UpdateRules rules, runtime::update_rules(settings));
  ValueCheck check(Values(static_cast<std::uint64_t>(settings.seed)), rules, rank, workers);
  check.exact_ = settings.sync == "bsp";
  PACELINE_ASSIGN_OR_RETURN(check.sync_, runtime::sync_options(settings));
  check.rate_ = rules.learning_rate.base;
  return check;
}

ValueCheck::ValueCheck(Values values, const runtime::UpdateRules& rules, Rank rank, std::int32_t workers)
    : values_(std::move(values)),
      rank_(rank),
      update_(rules, one_period()),
      expected_(values_.initial().begin(), values_.initial().end()),
      gradients_(static_cast<std::size_t>(workers), std::vector<float>(kPeriod)) {
  update_.begin(expected_);
}

Status ValueCheck::on_iteration(Iteration iteration) {
  // Where gradients are averaged, and in the first iterations of ElasticBSP, a push moves the values by its share.
  const bool summed = sync_.kind == sync::SyncKind::kElasticBsp && iteration <= sync_.history;
  const bool shared = sync_.scale == sync::GradientScale::kMean || (summed && sync_.scale == sync::GradientScale::kOfModel);
  own_ += rate_ * values_.size(rank_, iteration) / (shared ? static_cast<double>(gradients_.size()) : 1.0);
  if (!exact_) return {};
  for (std::size_t worker = 0; worker < gradients_.size(); ++worker)
    values_.make_gradient(Rank{static_cast<std::int32_t>(worker)}, iteration, gradients_[worker]);
  return update_.apply(iteration, gradients_, std::vector(gradients_.size(), std::vector<char>{1}), expected_);
}

std::optional<ValueCheck::Difference> ValueCheck::find_difference(std::int64_t offset, std::span<const float> values,
                                                                  Seen& seen) const {
  if (values.empty()) return std::nullopt;
  if (!exact_) return find_off_line(offset, values, seen);
  const auto index = first_difference(expected_, offset, values);
  if (!index) return std::nullopt;
  return Difference{*index, expected_[static_cast<std::size_t>((offset + static_cast<std::int64_t>(*index)) % kPeriod)]};
}

std::optional<ValueCheck::Difference> ValueCheck::find_off_line(std::int64_t offset, std::span<const float> values,
                                                                Seen& seen) const {
  const auto initial = values_.initial(), direction = values_.direction();
  auto at = static_cast<std::size_t>(offset % kPeriod);
  const float least = std::max(seen.along, static_cast<float>(own_));
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
  seen.along = along;
  return std::nullopt;
}

}  // namespace paceline::replay
