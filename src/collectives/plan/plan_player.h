// Plays a plan on values in memory, one rank at a time, each as far as it gets: what an executor does, without a network. The check
// plays it on sets of contributions, tests on numbers. `Value` is copied and added with +=.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "collectives/plan/plan.h"

namespace paceline::collectives {

template <typename Value>
class PlanPlayer {
 public:
  // `buffers`: one for each rank, each of the message's elements. `fresh` fills the scratch memory. `plan` must outlive the player
  // and have passed check_form.
  PlanPlayer(const CollectivePlan& plan, std::vector<std::vector<Value>> buffers, const Value& fresh) : plan_(plan) {
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      ranks_.push_back({std::move(buffers[rank]), std::vector<Value>(static_cast<std::size_t>(plan.ranks[rank].scratch), fresh)});
    }
  }

  // Goes over the ranks in `order`, again and again, until all are done. Error: no rank can go on (a deadlock), or messages do not
  // fit.
  Status play(const std::vector<int>& order) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (const int rank : order) {
        while (true) {
          PACELINE_ASSIGN_OR_RETURN(const bool stepped, try_step(rank));
          if (!stepped) break;
          moved = true;
        }
      }
    }
    for (const int rank : order) {
      const State& state = ranks_[static_cast<std::size_t>(rank)];
      const auto& steps = plan_.ranks[static_cast<std::size_t>(rank)].steps;
      if (state.next < steps.size()) {
        return error(ErrorKind::kBadRequest, "deadlock: rank {} waits in round {} for rank {}, which sends nothing more", rank,
                     steps[state.next].round, steps[state.next].peer);
      }
    }
    for (const auto& [ends, waiting] : channels_) {
      if (!waiting.empty())
        return error(ErrorKind::kBadRequest, "rank {} never receives a message of rank {}", ends.second, ends.first);
    }
    return {};
  }

  const std::vector<Value>& buffer(int rank) const { return ranks_[static_cast<std::size_t>(rank)].buffer; }

 private:
  struct State {
    std::vector<Value> buffer;
    std::vector<Value> scratch;
    std::size_t next = 0;
  };
  struct Message {
    std::int64_t round;
    std::vector<Value> values;
  };

  Result<bool> try_step(int rank) {
    State& state = ranks_[static_cast<std::size_t>(rank)];
    const auto& steps = plan_.ranks[static_cast<std::size_t>(rank)].steps;
    if (state.next == steps.size()) return false;
    const Step& step = steps[state.next];
    switch (step.kind) {
      case StepKind::kSend:
        channels_[{rank, step.peer}].push_back({step.round, read(state, step.from)});
        break;
      case StepKind::kReceive: {
        auto& waiting = channels_[{step.peer, rank}];
        if (waiting.empty()) return false;
        const Message message = std::move(waiting.front());
        waiting.pop_front();
        if (message.round != step.round || std::int64_t(message.values.size()) != step.to.count()) {
          return error(ErrorKind::kBadRequest, "rank {} expects {} elements from rank {} in round {}, but {} were sent in round {}",
                       rank, step.to.count(), step.peer, step.round, message.values.size(), message.round);
        }
        write(state, step.to, message.values);
        break;
      }
      case StepKind::kReduce: {
        std::vector<Value> sum = read(state, step.to);
        const std::vector<Value> addend = read(state, step.from);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
        write(state, step.to, sum);
        break;
      }
      case StepKind::kCopy:
        write(state, step.to, read(state, step.from));
        break;
    }
    ++state.next;
    return true;
  }

  static std::vector<Value>& memory_of(State& state, const Place& place) {
    return place.memory == Memory::kBuffer ? state.buffer : state.scratch;
  }

  static std::vector<Value> read(State& state, const Place& place) {
    const std::vector<Value>& memory = memory_of(state, place);
    std::vector<Value> values;
    for (const Range& range : {place.range, place.wrapped}) {
      values.insert(values.end(), memory.begin() + range.first, memory.begin() + range.first + range.count);
    }
    return values;
  }

  static void write(State& state, const Place& place, const std::vector<Value>& values) {
    auto value = values.begin();
    for (const Range& range : {place.range, place.wrapped}) {
      std::copy(value, value + range.count, memory_of(state, place).begin() + range.first);
      value += range.count;
    }
  }

  const CollectivePlan& plan_;
  std::vector<State> ranks_;
  std::map<std::pair<int, int>, std::deque<Message>> channels_;  // by (sender, receiver)
};

}  // namespace paceline::collectives
