#include "collectives/training/updater.h"

#include <algorithm>

#include "tensor/optimizer.h"
#include "tensor/reduce.h"

namespace paceline::collectives {
namespace {

using paramserver::NonFinitePolicy;

constexpr const char* kRemedy = "lower the learning rate, or give --non-finite skip";

std::span<float> range(std::span<float> of, std::int64_t offset, std::int64_t elements) {
  return of.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(elements));
}

}  // namespace

Updater::Updater(std::shared_ptr<const paramserver::JobPlan> plan, Role role) : plan_(std::move(plan)) {
  const scheduling::UnitPlan& units = plan_->units();
  std::size_t state = 0;
  for (const scheduling::Unit& unit : units.units) {
    first_piece_.push_back(static_cast<std::uint32_t>(pieces_.size()));
    for (std::uint32_t i = 0; i < unit.parts; ++i) {
      const scheduling::Part& part = units.parts[unit.first_part + i];
      const auto floats = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(part.tensor)));
      for (std::int64_t at = 0; at < part.elements; at += kPieceElements) {
        const std::int64_t elements = std::min(kPieceElements, part.elements - at);
        pieces_.push_back({unit.first_part + i, i, part.offset - unit.offset + at, elements, state});
        state += static_cast<std::size_t>(elements) * floats;
      }
    }
  }
  first_piece_.push_back(static_cast<std::uint32_t>(pieces_.size()));
  if (role == Role::kUpdates) state_.resize(state, 0.0F);
  steps_.resize(units.parts.size(), 0);
}

std::string Updater::part_text(std::uint32_t part) const {
  const scheduling::Part& planned = plan_->units().parts[part];
  const wire::TensorInfo& tensor = plan_->table().tensors[planned.tensor];
  return fmt::format("{} (tensor \"{}\")", plan_->layer_text(tensor.layer), tensor.name);
}

bool Updater::used(const Piece& piece, std::uint32_t unit, std::span<const float> sum) const {
  return sum[static_cast<std::size_t>(plan_->units().units[unit].elements) + piece.part_in_unit] > 0;
}

Status Updater::make_mean(std::uint32_t unit, std::uint32_t piece, Iteration iteration, std::span<float> sum) {
  const Piece& of = piece_of(unit, piece);
  if (!used(of, unit, sum)) return {};
  const std::span<float> mean = range(sum, of.offset, of.elements);
  const std::int32_t workers = plan_->options().workers;
  if (workers > 1) tensor::scale(mean, 1.0 / static_cast<double>(workers));
  const paramserver::UpdateOptions& options = plan_->options().update;
  if (options.clip_norm > 0) squares_.add(mean);
  if (options.non_finite == NonFinitePolicy::kApply || tensor::all_finite(mean)) return {};
  if (options.non_finite == NonFinitePolicy::kSkip) {
    squares_.mark_nan();
    return {};
  }
  return error(ErrorKind::kCorrupt, "the sum of the workers' gradients overflows in {} of iteration {}; {}", part_text(of.part),
               iteration, kRemedy);
}

Updater::Verdict Updater::decide() {
  const paramserver::UpdateOptions& options = plan_->options().update;
  const bool skip = options.non_finite == NonFinitePolicy::kSkip && !squares_.finite();
  verdict_ = skip ? Verdict::kSkip : Verdict::kStep;
  coefficient_ = options.clip_norm > 0 && !skip ? tensor::clip_coefficient(squares_, options.clip_norm) : 1.0F;
  squares_ = {};
  return verdict_;
}

void Updater::step(std::uint32_t unit, std::uint32_t piece, Iteration iteration, std::span<float> sum,
                   std::span<float> parameters) {
  const Piece& of = piece_of(unit, piece);
  if (verdict_ == Verdict::kSkip || !used(of, unit, sum)) return;
  const std::span<float> mean = range(sum, of.offset, of.elements);
  if (coefficient_ != 1.0F) tensor::scale(mean, static_cast<double>(coefficient_));
  const scheduling::Part& part = plan_->units().parts[of.part];
  // The pieces of a part are done in order: its first one counts the update.
  if (of.offset == part.offset - plan_->units().units[unit].offset) ++steps_[of.part];
  const tensor::OptimizerOptions& optimizer = plan_->optimizer_of(part.tensor);
  const auto floats = static_cast<std::size_t>(tensor::state_floats_per_parameter(optimizer));
  tensor::step(optimizer, {.learning_rate = plan_->learning_rate_of(part.tensor, iteration), .step = steps_[of.part]},
               range(parameters, of.offset, of.elements), mean,
               std::span(state_).subspan(of.state, floats * static_cast<std::size_t>(of.elements)));
}

template <typename Visit>
void Updater::for_each_run(std::uint32_t part, Visit visit) const {
  if (state_.empty()) return;
  const scheduling::UnitPlan& units = plan_->units();
  const scheduling::Part& planned = units.parts[part];
  const auto planes = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(planned.tensor)));
  // Pieces stand in the order of parts.
  const auto pieces = std::ranges::equal_range(pieces_, part, {}, &Piece::part);
  std::size_t done = 0;
  for (const Piece& piece : pieces) {
    const auto elements = static_cast<std::size_t>(piece.elements);
    for (std::size_t plane = 0; plane < planes; ++plane)
      visit(plane * static_cast<std::size_t>(planned.elements) + done, piece.state + plane * elements, elements);
    done += elements;
  }
}

Updater::PartState Updater::export_part(std::uint32_t part) const {
  const scheduling::Part& planned = plan_->units().parts[part];
  const auto planes = static_cast<std::size_t>(tensor::state_floats_per_parameter(plan_->optimizer_of(planned.tensor)));
  PartState to{{}, steps_[part]};
  if (!state_.empty()) to.state.resize(planes * static_cast<std::size_t>(planned.elements));
  for_each_run(part, [&](std::size_t there, std::size_t here, std::size_t count) {
    std::copy_n(state_.begin() + static_cast<std::ptrdiff_t>(here), count, to.state.begin() + static_cast<std::ptrdiff_t>(there));
  });
  return to;
}

void Updater::import_part(std::uint32_t part, const PartState& from) {
  steps_[part] = from.steps;
  for_each_run(part, [&](std::size_t there, std::size_t here, std::size_t count) {
    PACELINE_CHECK(there + count <= from.state.size(), "{} numbers of state for part {}", from.state.size(), part);
    std::copy_n(from.state.begin() + static_cast<std::ptrdiff_t>(there), count, state_.begin() + static_cast<std::ptrdiff_t>(here));
  });
}

Status Updater::check_own(Rank self, std::uint32_t unit, std::uint32_t unused_parts, Iteration iteration,
                          std::span<const float> gradient) const {
  if (plan_->options().update.non_finite != NonFinitePolicy::kStop) return {};
  if (tensor::all_finite(gradient)) return {};
  const scheduling::Unit& planned = plan_->units().units[unit];
  for (std::uint32_t i = 0; i < planned.parts; ++i) {
    if ((unused_parts >> i & 1) != 0) continue;
    const scheduling::Part& part = plan_->units().parts[planned.first_part + i];
    const auto values =
        gradient.subspan(static_cast<std::size_t>(part.offset - planned.offset), static_cast<std::size_t>(part.elements));
    const auto element = tensor::first_non_finite(values);
    if (!element) continue;
    return error(ErrorKind::kCorrupt, "worker {} has a gradient that is not finite in {} of iteration {}: element {} is {}; {}",
                 self.value, part_text(planned.first_part + i), iteration, *element, values[*element], kRemedy);
  }
  return {};
}

}  // namespace paceline::collectives
