#include "collectives/plan/device_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/check.h"

namespace paceline::collectives {
namespace {

using Kind = DeviceOperation::Kind;

bool contains(const Range& outer, const Range& inner) {
  return outer.first <= inner.first && inner.first + inner.count <= outer.first + outer.count;
}

std::vector<Range> pieces(const Place& place) {
  std::vector<Range> ranges;
  for (const Range& range : {place.range, place.wrapped})
    if (range.count > 0) ranges.push_back(range);
  return ranges;
}

class Scheduler {
 public:
  explicit Scheduler(const CollectivePlan& plan)
      : plan_(plan), halves_(rounds_keep_scratch_to_themselves() ? 2 : 1), touched_(plan.ranks.size()) {
    for (const RankPlan& rank : plan.ranks) schedule_.scratch.push_back(rank.scratch * halves_);
  }

  DeviceSchedule run() {
    std::vector<std::size_t> next(plan_.ranks.size());
    for (std::int64_t round = 0; round < plan_.rounds; ++round) {
      send_all(round);
      for (std::size_t rank = 0; rank < next.size(); ++rank) compute(static_cast<int>(rank), round, next[rank]);
    }
    return std::move(schedule_);
  }

 private:
  struct Touch {
    Memory memory;
    Range range;
    bool writes;
    std::uint32_t operation;
  };

  bool rounds_keep_scratch_to_themselves() const {
    for (const RankPlan& rank : plan_.ranks) {
      std::vector<std::pair<std::int64_t, Range>> written;
      for (const Step& step : rank.steps) {
        if (step.kind != StepKind::kReceive && step.from.memory == Memory::kScratch) {
          for (const Range& range : pieces(step.from)) {
            const bool own = std::ranges::any_of(
                written, [&](const auto& one) { return one.first == step.round && contains(one.second, range); });
            if (!own) return false;
          }
        }
        if (step.kind == StepKind::kReduce && step.to.memory == Memory::kScratch) return false;
        if (step.kind != StepKind::kSend && step.to.memory == Memory::kScratch) {
          std::erase_if(written, [&](const auto& one) { return one.first != step.round; });
          for (const Range& range : pieces(step.to)) written.emplace_back(step.round, range);
        }
      }
    }
    return true;
  }

  // The messages of a round; the n-th from one rank to another is the n-th that the other receives from it.
  void send_all(std::int64_t round) {
    std::map<std::pair<int, int>, std::vector<const Step*>> receives;
    for_each(round, StepKind::kReceive, [&](int rank, const Step& step) { receives[{step.peer, rank}].push_back(&step); });
    std::map<std::pair<int, int>, std::size_t> taken;
    for_each(round, StepKind::kSend, [&](int rank, const Step& step) {
      const auto& waiting = receives[{rank, step.peer}];
      std::size_t& index = taken[{rank, step.peer}];
      PACELINE_CHECK(index < waiting.size(), "rank {} sends in round {} what rank {} does not receive", rank, round, step.peer);
      add(Kind::kCopy, DeviceStream::kLeaving, rank, step.peer, step.from, waiting[index++]->to, round);
    });
  }

  template <typename Action>
  void for_each(std::int64_t round, StepKind kind, const Action& action) const {
    for (std::size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const auto& steps = plan_.ranks[rank].steps;
      auto step = std::ranges::lower_bound(steps, round, {}, &Step::round);
      for (; step != steps.end() && step->round == round; ++step)
        if (step->kind == kind) action(static_cast<int>(rank), *step);
    }
  }

  void compute(int rank, std::int64_t round, std::size_t& next) {
    const auto& steps = plan_.ranks[static_cast<std::size_t>(rank)].steps;
    for (; next < steps.size() && steps[next].round == round; ++next) {
      const Step& step = steps[next];
      if (step.kind != StepKind::kReduce && step.kind != StepKind::kCopy) continue;
      add(step.kind == StepKind::kReduce ? Kind::kReduce : Kind::kCopy, DeviceStream::kComputing, rank, rank, step.from, step.to,
          round);
    }
  }

  // Both places in pieces of one range each.
  void add(Kind kind, DeviceStream stream, int rank, int peer, const Place& from, const Place& to, std::int64_t round) {
    const auto sources = pieces(from), targets = pieces(to);
    std::size_t s = 0, t = 0;
    std::int64_t s_done = 0, t_done = 0;
    while (s < sources.size() && t < targets.size()) {
      const std::int64_t count = std::min(sources[s].count - s_done, targets[t].count - t_done);
      DeviceOperation operation{
          .kind = kind, .stream = stream, .rank = rank, .peer = peer, .from_memory = from.memory, .to_memory = to.memory};
      operation.from = {sources[s].first + s_done + offset(from.memory, rank, round), count};
      operation.to = {targets[t].first + t_done + offset(to.memory, peer, round), count};
      append(std::move(operation));
      s_done += count;
      t_done += count;
      if (s_done == sources[s].count) ++s, s_done = 0;
      if (t_done == targets[t].count) ++t, t_done = 0;
    }
  }

  std::int64_t offset(Memory memory, int rank, std::int64_t round) const {
    if (memory == Memory::kBuffer) return 0;
    return round % halves_ * plan_.ranks[static_cast<std::size_t>(rank)].scratch;
  }

  void append(DeviceOperation operation) {
    const auto number = static_cast<std::uint32_t>(schedule_.operations.size());
    std::map<std::pair<int, DeviceStream>, std::uint32_t> latest;  // of those it has to wait for, by stream
    const auto touch = [&](int rank, Memory memory, const Range& range, bool writes) {
      auto& touches = touched_[static_cast<std::size_t>(rank)];
      for (const Touch& other : touches) {
        if (other.memory != memory || !(writes || other.writes) || !overlap(other.range, range)) continue;
        const DeviceOperation& earlier = schedule_.operations[other.operation];
        auto& last = latest[{earlier.rank, earlier.stream}];
        last = std::max(last, other.operation + 1);
      }
    };
    touch(operation.rank, operation.from_memory, operation.from, false);
    touch(operation.peer, operation.to_memory, operation.to, true);
    for (const auto& [stream, operation_after] : latest) {
      if (stream != std::pair(operation.rank, operation.stream)) operation.waits.push_back(operation_after - 1);
    }
    note(operation.rank, {operation.from_memory, operation.from, false, number});
    note(operation.peer, {operation.to_memory, operation.to, true, number});
    schedule_.operations.push_back(std::move(operation));
  }

  // Whoever has to wait for something that is written over has to wait for the writer, which has waited itself.
  void note(int rank, const Touch& touch) {
    auto& touches = touched_[static_cast<std::size_t>(rank)];
    if (touch.writes)
      std::erase_if(touches, [&](const Touch& old) {
        return old.memory == touch.memory && contains(touch.range, old.range) && old.operation != touch.operation;
      });
    touches.push_back(touch);
  }

  const CollectivePlan& plan_;
  std::int64_t halves_;
  std::vector<std::vector<Touch>> touched_;  // by rank: who used what last
  DeviceSchedule schedule_;
};

}  // namespace

DeviceSchedule device_schedule(const CollectivePlan& plan) { return Scheduler(plan).run(); }

}  // namespace paceline::collectives
