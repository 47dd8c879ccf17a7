#include "sync/unit_updates.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace paceline::sync {

UnitUpdates::UnitUpdates(std::int32_t units, Iteration summed_until, GradientScale scale)
    : summed_until_(summed_until), scale_(scale), summed_(static_cast<std::size_t>(units), 0) {}

std::size_t UnitUpdates::live_members() const {
  return static_cast<std::size_t>(std::ranges::count_if(members_, [](const Member& member) { return member.live; }));
}

void UnitUpdates::on_joined(Rank worker, Iteration first) {
  forget_members();
  const auto after = [&](const Member& member) { return std::tie(member.rank, member.first) > std::tie(worker, first); };
  members_.insert(std::ranges::find_if(members_, after), {worker, first, true, std::vector<Iteration>(summed_.size(), first - 1)});
  contributors_.reserve(members_.size());
}

void UnitUpdates::on_left(Rank worker, std::vector<Update>& updates) {
  const auto leaving = std::ranges::find_if(members_, [&](const Member& member) { return member.live && member.rank == worker; });
  PACELINE_CHECK(leaving != members_.end(), "worker {} left but does not take part", worker.value);
  leaving->live = false;
  std::vector<std::pair<Iteration, std::size_t>> released;
  for (std::size_t unit = 0; unit < summed_.size(); ++unit) {
    for (auto next = first_waiting(unit); next && complete(unit, *next); next = first_waiting(unit)) {
      released.emplace_back(*next, unit);
      summed_[unit] = *next;
    }
  }
  std::ranges::sort(released);
  contributors_.clear();
  contributors_.reserve(released.size() * members_.size());  // the updates point into it
  for (const auto& [iteration, unit] : released) updates.push_back(summed(unit, iteration));
  forget_members();
}

Status UnitUpdates::on_push(Rank worker, std::int32_t unit, Iteration iteration, std::vector<Update>& updates) {
  const auto found = std::ranges::find_if(members_, [&](const Member& member) { return member.live && member.rank == worker; });
  if (found == members_.end()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {} of iteration {} but does not take part", worker.value, unit,
                 iteration);
  }
  if (unit < 0 || static_cast<std::size_t>(unit) >= summed_.size()) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {}; this server has units 0..{}", worker.value, unit,
                 static_cast<std::int64_t>(summed_.size()) - 1);
  }
  const auto at = static_cast<std::size_t>(unit);
  Iteration& last = found->pushed[at];
  if (iteration != last + 1) {
    return error(ErrorKind::kBadRequest, "worker {} pushed unit {} of iteration {}; expected iteration {}", worker.value, unit,
                 iteration, last + 1);
  }
  last = iteration;
  contributors_.clear();
  if (iteration > summed_until_) {
    contributors_.push_back(worker);
    const double scale = scale_ == GradientScale::kMean ? 1.0 / static_cast<double>(live_members()) : 1.0;
    updates.push_back({unit, iteration, contributors_, scale});
    return {};
  }
  newest_summed_ = std::max(newest_summed_, iteration);
  if (!complete(at, iteration)) return {};
  summed_[at] = iteration;
  updates.push_back(summed(at, iteration));
  return {};
}

// A worker pushes a unit's iterations in order, so an iteration is complete only when the earlier ones are.
bool UnitUpdates::complete(std::size_t unit, Iteration iteration) const {
  return std::ranges::all_of(
      members_, [&](const Member& member) { return !member.live || member.first > iteration || member.pushed[unit] >= iteration; });
}

// The earliest iteration of the unit that the member has pushed and that is not summed yet.
std::optional<Iteration> UnitUpdates::waiting(const Member& member, std::size_t unit) const {
  const Iteration next = std::max(member.first, summed_[unit] + 1);
  if (next > std::min(member.pushed[unit], summed_until_)) return {};
  return next;
}

std::optional<Iteration> UnitUpdates::first_waiting(std::size_t unit) const {
  std::optional<Iteration> first;
  for (const Member& member : members_) {
    const auto next = waiting(member, unit);
    if (next && (!first || *next < *first)) first = next;
  }
  return first;
}

// Puts the workers that pushed `iteration` behind contributors_, which has the room.
Update UnitUpdates::summed(std::size_t unit, Iteration iteration) {
  const std::size_t begin = contributors_.size();
  for (const Member& member : members_) {
    if (member.first <= iteration && member.pushed[unit] >= iteration) contributors_.push_back(member.rank);
  }
  const auto workers = std::span<const Rank>(contributors_).subspan(begin);
  const double scale = scale_ == GradientScale::kFull ? 1.0 : 1.0 / static_cast<double>(workers.size());
  return {static_cast<std::int32_t>(unit), iteration, workers, scale};
}

void UnitUpdates::forget_members() {
  std::erase_if(members_, [&](const Member& member) {
    if (member.live) return false;
    for (std::size_t unit = 0; unit < summed_.size(); ++unit) {
      if (waiting(member, unit)) return false;
    }
    return true;
  });
}

}  // namespace paceline::sync
