// How ServerCore makes the updates of a whole iteration at once: with clipping, or when an iteration that is not finite is skipped,
// no unit may be updated before the sums of all units on all servers are known.
#include <algorithm>
#include <utility>

#include "paramserver/core/server_core.h"
#include "tensor/reduce.h"

namespace paceline::paramserver {

// False when the job must stop.
bool ServerCore::keep_part(std::uint32_t part, const sync::Update& update, std::vector<ServerAction>& actions) {
  if (!gather_sources(part, update)) return true;
  const UpdateOptions& options = plan_->options().update;
  const std::uint32_t unit = planned_part(part).unit;
  UnitState& of = state(unit);
  if (of.sum == kNoBuffer) of.sum = take_buffer(elements(unit));
  of.used_parts |= bit_of(part);
  const auto sum = part_of(pool_.of(of.sum, elements(unit)), part);
  sum_sources(sum, update.scale);
  if (options.non_finite != NonFinitePolicy::kApply) {
    if (auto reason = non_finite(part, update, sum)) {
      if (options.non_finite == NonFinitePolicy::kStop) {
        actions.push_back(
            {.kind = ServerAction::Kind::kStop, .unit = unit, .iteration = update.iteration, .failure = *std::move(reason)});
        return false;
      }
      if (kept_failure_.ok()) kept_failure_ = *std::move(reason);
      own_part_.mark_nan();
    }
  }
  if (options.clip_norm > 0) own_part_.add(sum);
  return true;
}

void ServerCore::keep_sum(std::uint32_t unit, const sync::Update& update, std::vector<ServerAction>& actions) {
  const scheduling::Unit& planned = plan_->units().units[unit];
  state(unit).used_parts = 0;
  for (std::uint32_t part = planned.first_part; part < planned.first_part + planned.parts; ++part) {
    if (!keep_part(part, update, actions)) return;
  }
  for (const Rank worker : update.workers) give_back_gradient(unit, worker);
  if (++kept_ < units_.size()) return;

  own_part_done_ = true;
  auto& payload = sent_parts_[static_cast<std::size_t>(update.iteration % 2)];
  own_part_.write(payload);
  for (const std::size_t taker : part_takers_) {
    actions.push_back({.kind = ServerAction::Kind::kSendSquareSum,
                       .to = Rank{static_cast<std::int32_t>(taker)},
                       .iteration = update.iteration,
                       .payload = payload});
  }
  try_release(actions);
}

Status ServerCore::on_square_sum(Rank server, Iteration iteration, std::span<const std::byte> payload,
                                 std::vector<ServerAction>& actions) {
  if (!plan_->holds_updates())
    return error(ErrorKind::kBadRequest, "server {} sent a square sum; this job does not clip", server.value);
  if (std::ranges::find(part_takers_, static_cast<std::size_t>(server.value)) == part_takers_.end() || units_.empty()) {
    return error(ErrorKind::kBadRequest, "a square sum came from server {} to server {}; they do not exchange any", server.value,
                 server_.value);
  }
  if (payload.size() != tensor::kSquareSumBytes) {
    return error(ErrorKind::kBadRequest, "server {} sent a square sum of {} bytes; it has {}", server.value, payload.size(),
                 tensor::kSquareSumBytes);
  }
  // A server is at most one iteration ahead: the workers push nothing of the next but one before they have this server's values.
  if (iteration != complete_ + 1 && iteration != complete_ + 2) {
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} during iteration {}", server.value,
                 iteration, complete_ + 1);
  }
  SquarePart& part = parts_[static_cast<std::size_t>(server.value)][static_cast<std::size_t>(iteration % 2)];
  if (part.iteration == iteration)
    return error(ErrorKind::kBadRequest, "server {} sent its square sum of iteration {} twice", server.value, iteration);
  part.iteration = iteration;
  part.sum = tensor::ExactSquareSum::read(payload.first<tensor::kSquareSumBytes>());
  try_release(actions);
  return {};
}

void ServerCore::try_release(std::vector<ServerAction>& actions) {
  if (!own_part_done_) return;
  const Iteration iteration = complete_ + 1;
  tensor::ExactSquareSum squares = own_part_;
  for (const std::size_t other : part_takers_) {
    const SquarePart& part = parts_[other][static_cast<std::size_t>(iteration % 2)];
    if (part.iteration != iteration) return;
    squares.add(part.sum);
  }
  release(squares, actions);
}

void ServerCore::release_unit(std::uint32_t unit, Iteration iteration, float coefficient) {
  const scheduling::Unit& planned = plan_->units().units[unit];
  for (std::uint32_t part = planned.first_part; part < planned.first_part + planned.parts; ++part) {
    if ((state(unit).used_parts & bit_of(part)) == 0) continue;
    const auto gradient = part_of(pool_.of(state(unit).sum, elements(unit)), part);
    if (coefficient != 1.0F) tensor::scale(gradient, static_cast<double>(coefficient));
    step(part, iteration, gradient);
  }
}

void ServerCore::release(const tensor::ExactSquareSum& squares, std::vector<ServerAction>& actions) {
  const UpdateOptions& options = plan_->options().update;
  const Iteration iteration = complete_ + 1;
  const bool skip = options.non_finite == NonFinitePolicy::kSkip && !squares.finite();
  const float coefficient = options.clip_norm > 0 && !skip ? tensor::clip_coefficient(squares, options.clip_norm) : 1.0F;
  if (skip) {
    Status reason = kept_failure_.ok() ? error(ErrorKind::kCorrupt,
                                               "another server found a gradient of iteration {} that is not finite", iteration)
                                       : kept_failure_;
    actions.push_back({.kind = ServerAction::Kind::kSkipped, .iteration = iteration, .failure = std::move(reason)});
  }
  kept_ = 0;
  own_part_done_ = false;
  own_part_ = {};
  kept_failure_ = {};
  for (const std::uint32_t unit : my_units()) {
    const bool skipped = skip || state(unit).sum == kNoBuffer;
    if (!skipped) release_unit(unit, iteration, coefficient);
    ++(skipped ? counters_.skipped_units : counters_.updates);
    give_back(state(unit).sum, elements(unit));
    count_version(unit, iteration, actions);
  }
  for (const std::uint32_t unit : my_units()) offer_to_all(unit, iteration, actions);
}

}  // namespace paceline::paramserver
