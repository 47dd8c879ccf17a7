#include "collectives/plan/plan_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "collectives/plan/plan_player.h"

namespace paceline::collectives {
namespace {

bool meet(const Range& a, const Range& b) {
  return a.count > 0 && b.count > 0 && a.first < b.first + b.count && b.first < a.first + a.count;
}

bool meet(const Place& a, const Place& b) {
  if (a.memory != b.memory) return false;
  return meet(a.range, b.range) || meet(a.range, b.wrapped) || meet(a.wrapped, b.range) || meet(a.wrapped, b.wrapped);
}

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
      if (meet(step.from, step.to)) return wrong(step, "reads what it writes");
    }
    if (sends_ > 0 && !sends && meet(sent_, step.to)) return wrong(step, "writes what is being sent");
    if (sends && receives_ > 0 && meet(sent_, received_)) return wrong(step, "sends what is being received");
    return {};
  }

  Status check(const Step& step, const Place& place) const {
    if (place.count() == 0) return wrong(step, "is empty");
    const std::int64_t size =
        place.memory == Memory::kBuffer ? plan_.request.elements : plan_.ranks[static_cast<std::size_t>(rank_)].scratch;
    for (const Range& range : {place.range, place.wrapped}) {
      if (range.first < 0 || range.count < 0 || range.first + range.count > size) return wrong(step, "leaves its memory");
    }
    if (meet(place.range, place.wrapped)) return wrong(step, "names an element twice");
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

bool gets_result(const PlanRequest& request, int rank) { return request.operation != Operation::kReduce || rank == request.root; }

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
  const bool broadcast = request.operation == Operation::kBroadcast;
  std::vector<std::vector<Contributions>> buffers;
  for (int rank = 0; rank < request.ranks; ++rank) {
    const bool has_value = !broadcast || rank == request.root;
    buffers.emplace_back(static_cast<std::size_t>(request.elements),
                         has_value ? Contributions{std::uint64_t{1} << rank} : Contributions{});
  }
  PlanPlayer<Contributions> player(plan, std::move(buffers), {});
  std::vector<int> order(static_cast<std::size_t>(request.ranks));
  std::iota(order.begin(), order.end(), 0);
  PACELINE_RETURN_IF_ERROR(player.play(order));

  const std::uint64_t all = ~std::uint64_t{0} >> (kMostRanksChecked - request.ranks);
  const Contributions wanted{broadcast ? std::uint64_t{1} << request.root : all};
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (!gets_result(request, rank)) continue;
    const auto& result = player.buffer(rank);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] == wanted) continue;
      return error(ErrorKind::kBadRequest,
                   "rank {} ends with element {} made of the values of ranks [{}], more than once of [{}]; it must be once of [{}]",
                   rank, i, fmt::join(listed(result[i].ranks), " "), fmt::join(listed(result[i].doubled), " "),
                   fmt::join(listed(wanted.ranks), " "));
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
