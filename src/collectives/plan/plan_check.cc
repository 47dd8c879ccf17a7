#include "collectives/plan/plan_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

// One rank's steps, one after another, with what its current round has done so far.
class FormCheck {
 public:
  FormCheck(const CollectivePlan& plan, int rank) : plan_(plan), rank_(rank) {}

  Status run() {
    for (const Step& step : plan_.ranks[static_cast<std::size_t>(rank_)].steps) PACELINE_RETURN_IF_ERROR(check(step));
    return {};
  }

 private:
  Status check(const Step& step) {
    if (step.round < round_ || step.round >= plan_.rounds) return wrong(step, "stands in a round that is over or does not exist");
    if (step.round > round_) {
      round_ = step.round;
      sends_ = receives_ = locals_ = 0;
    }
    const bool sends = step.kind == StepKind::kSend;
    const bool receives = step.kind == StepKind::kReceive;
    if (!receives) PACELINE_RETURN_IF_ERROR(check(step, step.from));
    if (!sends) PACELINE_RETURN_IF_ERROR(check(step, step.to));
    if (sends || receives) {
      if (step.peer < 0 || step.peer >= plan_.request.ranks || step.peer == rank_)
        return wrong(step, "has a peer that is no other rank");
      if (locals_ > 0) return wrong(step, "stands after a reduce or copy of its round");
      if ((sends ? ++sends_ : ++receives_) > 1) return wrong(step, "is the second in its direction in a round");
      if (sends) sent_ = step.from;
      if (receives) received_ = step.to;
    } else {
      ++locals_;
      if (step.from.count() != step.to.count()) return wrong(step, "has places of different lengths");
      if (overlap(step.from, step.to)) return wrong(step, "reads what it writes");
    }
    if (sends_ > 0 && !sends && overlap(sent_, step.to)) return wrong(step, "writes what is being sent");
    if (sends && receives_ > 0 && overlap(sent_, received_)) return wrong(step, "sends what is being received");
    return {};
  }

  Status check(const Step& step, const Place& place) const {
    if (place.count() == 0) return wrong(step, "is empty");
    const std::int64_t size =
        place.memory == Memory::kBuffer ? plan_.request.elements : plan_.ranks[static_cast<std::size_t>(rank_)].scratch;
    for (const Range& range : {place.range, place.wrapped}) {
      if (range.first < 0 || range.count < 0 || range.first + range.count > size) return wrong(step, "leaves its memory");
    }
    if (overlap(place.range, place.wrapped)) return wrong(step, "names an element twice");
    return {};
  }

  Status wrong(const Step& step, const char* what) const {
    constexpr const char* kNames[] = {"send", "receive", "reduce", "copy"};
    return error(ErrorKind::kBadRequest, "rank {}, round {}: a {} {}", rank_, step.round, kNames[static_cast<int>(step.kind)],
                 what);
  }

  const CollectivePlan& plan_;
  const int rank_;
  std::int64_t round_ = 0;
  int sends_ = 0;
  int receives_ = 0;
  int locals_ = 0;
  Place sent_;
  Place received_;
};

// Whose contributions are in a value: a bit for each rank. No bits: nothing that anybody has written.
struct Contributions {
  std::uint64_t ranks = 0;
  std::uint64_t doubled = 0;  // those counted more than once

  Contributions& operator+=(const Contributions& other) {
    const bool unwritten = ranks == 0 || other.ranks == 0;
    doubled |= other.doubled | (ranks & other.ranks);
    ranks = unwritten ? 0 : ranks | other.ranks;
    return *this;
  }
  bool operator==(const Contributions&) const = default;
};

std::vector<int> listed(std::uint64_t ranks) {
  std::vector<int> list;
  for (int rank = 0; rank < 64; ++rank) {
    if (ranks >> rank & 1U) list.push_back(rank);
  }
  return list;
}

// The elements that a rank has before the operation, and those that it has the result of afterwards.
Range given(const PlanRequest& request, int rank) {
  if (request.operation == Operation::kBroadcast && rank != request.root) return {};
  if (request.operation == Operation::kAllgather) return part_of(request.elements, request.ranks, rank);
  return {0, request.elements};
}

Range wanted(const PlanRequest& request, int rank) {
  if (request.operation == Operation::kReduce && rank != request.root) return {};
  if (request.operation == Operation::kReduceScatter) return part_of(request.elements, request.ranks, rank);
  return {0, request.elements};
}

bool contains(const Range& range, std::int64_t element) { return element >= range.first && element < range.first + range.count; }

// Whose contributions the result of an element is made of.
std::uint64_t makers_of(const PlanRequest& request, std::int64_t element) {
  std::uint64_t makers = 0;
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (contains(given(request, rank), element)) makers |= std::uint64_t{1} << rank;
  }
  return makers;
}

}  // namespace

Status check_form(const CollectivePlan& plan) {
  PACELINE_RETURN_IF_ERROR(validate(plan.request));
  if (plan.ranks.size() != static_cast<std::size_t>(plan.request.ranks)) {
    return error(ErrorKind::kBadRequest, "the plan has steps for {} ranks instead of {}", plan.ranks.size(), plan.request.ranks);
  }
  for (int rank = 0; rank < plan.request.ranks; ++rank) PACELINE_RETURN_IF_ERROR(FormCheck(plan, rank).run());
  return {};
}

Status check_plan(const CollectivePlan& plan) {
  PACELINE_RETURN_IF_ERROR(check_form(plan));
  const PlanRequest& request = plan.request;
  if (request.ranks > kMostRanksChecked)
    return error(ErrorKind::kBadRequest, "{} ranks cannot be checked; at most {}", request.ranks, kMostRanksChecked);
  std::vector<std::vector<Contributions>> buffers;
  for (int rank = 0; rank < request.ranks; ++rank) {
    auto& buffer = buffers.emplace_back(static_cast<std::size_t>(request.elements));
    const Range own = given(request, rank);
    std::fill_n(buffer.begin() + own.first, own.count, Contributions{std::uint64_t{1} << rank});
  }
  PlanPlayer<Contributions> player(plan, std::move(buffers), {});
  std::vector<int> order(static_cast<std::size_t>(request.ranks));
  std::iota(order.begin(), order.end(), 0);
  PACELINE_RETURN_IF_ERROR(player.play(order));

  for (int rank = 0; rank < request.ranks; ++rank) {
    const auto& result = player.buffer(rank);
    const Range range = wanted(request, rank);
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      const Contributions& found = result[static_cast<std::size_t>(i)];
      const Contributions right{makers_of(request, i)};
      if (found == right) continue;
      return error(ErrorKind::kBadRequest,
                   "rank {} ends with element {} made of the values of ranks [{}], more than once of [{}]; it must be once of [{}]",
                   rank, i, fmt::join(listed(found.ranks), " "), fmt::join(listed(found.doubled), " "),
                   fmt::join(listed(right.ranks), " "));
    }
  }
  return {};
}

PlanTraffic traffic_of(const CollectivePlan& plan) {
  PlanTraffic traffic;
  traffic.rounds = plan.rounds;
  std::map<std::int64_t, std::int64_t> largest_message;
  std::map<std::int64_t, std::int64_t> most_reduced;
  for (const RankPlan& rank : plan.ranks) {
    std::int64_t sent = 0;
    std::map<std::int64_t, std::int64_t> reduced;
    for (const Step& step : rank.steps) {
      if (step.kind == StepKind::kSend) {
        sent += step.from.count();
        largest_message[step.round] = std::max(largest_message[step.round], step.from.count());
      } else if (step.kind == StepKind::kReduce) {
        reduced[step.round] += step.from.count();
      }
    }
    for (const auto& [round, count] : reduced) most_reduced[round] = std::max(most_reduced[round], count);
    traffic.sent += sent;
    traffic.most_sent = std::max(traffic.most_sent, sent);
  }
  for (const auto& [round, count] : largest_message) traffic.serial_sent += count;
  for (const auto& [round, count] : most_reduced) traffic.serial_reduced += count;
  return traffic;
}

}  // namespace paceline::collectives
