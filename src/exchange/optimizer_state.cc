#include "exchange/optimizer_state.h"

#include <algorithm>
#include <utility>

#include "tensor/optimizer.h"

namespace paceline::exchange {
namespace {

std::size_t planes_of(const job::Plan& plan, std::uint32_t tensor) {
  return static_cast<std::size_t>(tensor::state_floats_per_parameter(plan.optimizer_of(tensor)));
}

// Both move on behind what was copied. Nothing in what travels is aligned.
void put(std::span<std::byte>& to, std::span<const std::byte> from) {
  std::ranges::copy(from, to.begin());
  to = to.subspan(from.size());
}

void take(std::span<const std::byte>& from, std::span<std::byte> to) {
  std::ranges::copy(from.first(to.size()), to.begin());
  from = from.subspan(to.size());
}

// Where the part stands in its tensor.
std::size_t begin_of(const job::Plan& plan, const scheduling::Part& part) {
  const scheduling::UnitPlan& units = plan.units();
  const auto first =
      std::ranges::find(units.parts_of(units.units[units.of_tensor[part.tensor].begin]), part.tensor, &scheduling::Part::tensor);
  return static_cast<std::size_t>(part.offset - first->offset);
}

std::span<const scheduling::Part> parts_of(const job::Plan& plan, std::uint32_t unit) {
  return plan.units().parts_of(plan.units().units[unit]);
}

}  // namespace

std::size_t state_bytes(const job::Plan& plan, std::uint32_t unit) {
  std::size_t bytes = 0;
  for (const scheduling::Part& part : parts_of(plan, unit))
    bytes += sizeof(std::int64_t) + planes_of(plan, part.tensor) * static_cast<std::size_t>(part.elements) * sizeof(float);
  return bytes;
}

// --- an owner's ---

void write_state(const job::Plan& plan, std::uint32_t unit, const Shard& shard, std::span<std::byte> to) {
  const scheduling::Unit& planned = plan.units().units[unit];
  for (std::uint32_t part = planned.first_part; part < planned.first_part + planned.parts; ++part) {
    const Shard::PartState state = shard.save(part);
    put(to, std::as_bytes(std::span(&state.steps, 1)));
    put(to, std::as_bytes(state.state));
  }
}

Status read_state(const job::Plan& plan, std::uint32_t unit, std::span<const std::byte> from, Shard& shard) {
  struct Read {
    std::int64_t steps = 0;
    std::vector<float> planes;
  };
  std::vector<Read> all;
  for (const scheduling::Part& part : parts_of(plan, unit)) {
    Read& read = all.emplace_back();
    read.planes.resize(planes_of(plan, part.tensor) * static_cast<std::size_t>(part.elements));
    take(from, std::as_writable_bytes(std::span(&read.steps, 1)));
    take(from, std::as_writable_bytes(std::span(read.planes)));
    if (read.steps < 0) {
      const auto number = plan.units().units[unit].first_part + static_cast<std::uint32_t>(all.size()) - 1;
      return error(ErrorKind::kBadRequest, "the initial optimizer state of {} is of {} steps", plan.part_text(number), read.steps);
    }
  }
  for (std::uint32_t part = plan.units().units[unit].first_part; const Read& read : all)
    PACELINE_RETURN_IF_ERROR(shard.load(part++, {read.planes, read.steps}));
  return {};
}

// --- a worker's ---

Status OptimizerState::check(const job::Plan& plan) const {
  const auto& tensors = plan.table().tensors;
  for (std::uint32_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const Known& known = tensors_[tensor];
    if (known.steps == 0 && known.planes.empty()) continue;
    if (tensors[tensor].frozen)
      return error(ErrorKind::kBadRequest, "an optimizer's state came for \"{}\", which is frozen", tensors[tensor].name);
    if (known.planes.size() == planes_of(plan, tensor)) continue;
    return error(ErrorKind::kBadRequest, "the optimizer's state of \"{}\" has {} arrays; the job's optimizer has {}",
                 tensors[tensor].name, known.planes.size(), planes_of(plan, tensor));
  }
  return {};
}

bool OptimizerState::empty() const {
  return std::ranges::all_of(tensors_, [](const Known& known) { return known.steps == 0 && known.planes.empty(); });
}

void OptimizerState::clear(const job::Plan& plan) {
  const auto& tensors = plan.table().tensors;
  const std::vector<std::int64_t> offsets = plan.table().offsets();
  tensors_.resize(tensors.size());
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    Known& known = tensors_[tensor];
    known.steps = 0;
    known.planes.resize(tensors[tensor].frozen ? 0 : planes_of(plan, tensor));
    for (auto& plane : known.planes) plane.assign(static_cast<std::size_t>(offsets[tensor + 1] - offsets[tensor]), 0.0F);
  }
}

void OptimizerState::write(const job::Plan& plan, std::uint32_t unit, std::span<std::byte> to) const {
  for (const scheduling::Part& part : parts_of(plan, unit)) {
    const Known& known = tensors_[part.tensor];
    const auto elements = static_cast<std::size_t>(part.elements);
    put(to, std::as_bytes(std::span(&known.steps, 1)));
    if (known.planes.empty()) {  // nothing is known of it
      const auto zeros = to.first(planes_of(plan, part.tensor) * elements * sizeof(float));
      std::ranges::fill(zeros, std::byte{0});
      to = to.subspan(zeros.size());
    }
    for (const auto& plane : known.planes) put(to, std::as_bytes(std::span(plane).subspan(begin_of(plan, part), elements)));
  }
}

void OptimizerState::read(const job::Plan& plan, std::uint32_t unit, std::span<const std::byte> from) {
  for (const scheduling::Part& part : parts_of(plan, unit)) {
    Known& known = tensors_[part.tensor];
    std::int64_t steps = 0;
    take(from, std::as_writable_bytes(std::span(&steps, 1)));
    known.steps = std::max(known.steps, steps);
    for (auto& plane : known.planes)
      take(from, std::as_writable_bytes(std::span(plane).subspan(begin_of(plan, part), static_cast<std::size_t>(part.elements))));
  }
}

}  // namespace paceline::exchange
