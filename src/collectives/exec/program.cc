#include "collectives/exec/program.h"

#include <algorithm>
#include <numeric>

namespace paceline::collectives {
namespace {

constexpr int kNobody = -1;

// `count` elements of a place from its `first` on, in the order of the message.
Place piece_of(const Place& place, std::int64_t first, std::int64_t count) {
  Place piece{place.memory, {}, {}};
  const std::int64_t straight = std::clamp<std::int64_t>(place.range.count - first, 0, count);
  if (straight > 0) piece.range = {place.range.first + first, straight};
  if (straight < count) {
    const Range rest{place.wrapped.first + first + straight - place.range.count, count - straight};
    (straight > 0 ? piece.wrapped : piece.range) = rest;
  }
  return piece;
}

class Compiler {
 public:
  Compiler(int rank, int ranks, std::int64_t elements) {
    program_.rank = rank;
    program_.ranks = ranks;
    program_.elements = elements;
    program_.receives.resize(static_cast<std::size_t>(program_.ranks));
    program_.elements_from.resize(static_cast<std::size_t>(program_.ranks));
    program_.elements_to.resize(static_cast<std::size_t>(program_.ranks));
    sent_.resize(static_cast<std::size_t>(program_.ranks));
  }

  Program run(const ProgramRequest& request) {
    const RankPlan plan = plan_of_rank(request.plan, request.rank);
    program_.scratch = plan.scratch;
    program_.cut = static_cast<std::uint32_t>(std::min<std::int64_t>(request.plan.block, kMostCut));
    const int root = request.plan.root;
    const bool begins = request.plan.operation == Operation::kBroadcast;
    if (request.agreement == Agreement::kBeforeCompletion && !waits_for_all(request.plan))
      add_agreement(request.plan.elements == 0 ? kNobody : begins ? root : program_.ranks - 1 - root);
    const bool cut = request.plan.algorithm == Algorithm::kRing || request.plan.algorithm == Algorithm::kDirect;
    segment_ = cut ? request.segment : std::max<std::int64_t>(1, request.plan.elements);
    fuse(plan.steps);
    for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
      while (end < steps_.size() && steps_[end].round == steps_[begin].round) ++end;
      add_round(begin, end);
    }
    number_receives();
    return std::move(program_);
  }

  // Each begins with its neighbour, so that not all send to one at the same time.
  Program run(const ExchangeRequest& request) {
    const bool all = request.among == ExchangeRequest::Among::kAll;
    if (request.agreement == Agreement::kBeforeCompletion && !all && program_.ranks > 1) {
      const int other = program_.ranks - 1 - program_.rank;  // of two
      const bool takes = request.takes[static_cast<std::size_t>(other)] > 0;
      add_agreement(request.gives[static_cast<std::size_t>(other)] > 0 ? program_.rank : takes ? other : kNobody);
      add_round(0, steps_.size());
    }
    const auto given = places_of(Memory::kInput, request.gives), taken = places_of(Memory::kBuffer, request.takes);
    for (int distance = 0; distance < program_.ranks; ++distance) {
      const int to = (program_.rank + distance) % program_.ranks;
      const int from = (program_.rank - distance + program_.ranks) % program_.ranks;
      const Place& gives = given[static_cast<std::size_t>(to)];
      const Place& takes = taken[static_cast<std::size_t>(from)];
      if (distance == 0) {
        if (gives.count() > 0) add({ActionKind::kCopy, to, 0, 0, gives, takes}, 0, 0);
        continue;
      }
      if (all || gives.count() > 0) add({ActionKind::kSend, to, 0, gives.count(), gives, {}}, 0, 0);
      if (all || takes.count() > 0) add({ActionKind::kReceive, from, 0, takes.count(), {}, takes}, received_++, 0);
    }
    number_receives();
    return std::move(program_);
  }

 private:
  static std::vector<Place> places_of(Memory memory, const std::vector<std::int64_t>& lengths) {
    std::vector<Place> places;
    std::int64_t first = 0;
    for (const std::int64_t length : lengths) {
      places.push_back({memory, {first, length}, {}});
      first += length;
    }
    return places;
  }

  struct Fused {
    std::int64_t round;
    Action action;
    std::size_t receive;  // place of the message among all received; kReceive, kReceiveAndReduce
  };

  // The places of what was heard lie behind the scratch memory and take none: sending in round i reads what the rounds before have
  // written. `giver`: of two ranks the one whose elements say that it has begun.
  void add_agreement(int giver) {
    const auto says_it = [&](int rank) { return program_.ranks == 2 && rank == giver; };
    const std::int64_t first = program_.scratch;
    std::int64_t round = 0;
    for (std::int64_t distance = 1; distance < program_.ranks; distance *= 2, ++round) {
      const auto peer = [&](std::int64_t offset) {
        return static_cast<int>((program_.rank + offset + program_.ranks) % program_.ranks);
      };
      Action send{ActionKind::kSend, peer(distance), 0, 0, {Memory::kScratch, {first, round}, {}}, {}};
      Action receive{ActionKind::kReceive, peer(-distance), 0, 0, {}, {Memory::kScratch, {first + round, 1}, {}}};
      if (!says_it(program_.rank)) steps_.push_back({-1, send, 0});
      if (!says_it(receive.peer)) steps_.push_back({-1, receive, received_++});
    }
  }

  void fuse(const std::vector<Step>& steps) {
    std::vector<std::size_t> open;  // receives into scratch that no reduction has taken yet, as places in steps_
    for (const Step& step : steps) {
      Fused next{step.round, {ActionKind::kSend, step.peer, 0, 0, step.from, step.to}, 0};
      switch (step.kind) {
        case StepKind::kSend:
          break;
        case StepKind::kReceive:
          next.action.kind = ActionKind::kReceive;
          next.receive = received_++;
          if (step.to.memory == Memory::kScratch) open.push_back(steps_.size());
          break;
        case StepKind::kCopy:
          next.action.kind = ActionKind::kCopy;
          break;
        case StepKind::kReduce: {
          next.action.kind = ActionKind::kReduce;
          const auto source =
              std::find_if(open.rbegin(), open.rend(), [&](std::size_t at) { return steps_[at].action.to == step.from; });
          if (source == open.rend()) break;
          Fused& receive = steps_[*source];
          next.action = {ActionKind::kReceiveAndReduce, receive.action.peer, 0, 0, {}, step.to};
          next.receive = receive.receive;
          receive.action.kind = ActionKind::kCopy;  // of nothing: taken
          receive.action.to = {};
          open.erase(std::next(source).base());
          break;
        }
      }
      steps_.push_back(next);
    }
  }

  static std::int64_t size_of(const Action& action) {
    return action.kind == ActionKind::kSend ? action.from.count() : action.to.count();
  }

  // The segments of a round's steps in turn.
  void add_round(std::size_t begin, std::size_t end) {
    if (steps_[begin].round < 0) {
      for (std::size_t i = begin; i < end; ++i) add(steps_[i].action, steps_[i].receive, 0);
      return;
    }
    std::int64_t longest = 0;
    for (std::size_t i = begin; i < end; ++i) longest = std::max(longest, size_of(steps_[i].action));
    for (std::int64_t first = 0; first < longest; first += segment_) {
      for (std::size_t i = begin; i < end; ++i) {
        Action part = steps_[i].action;
        const std::int64_t count = std::min(segment_, size_of(part) - first);
        if (count <= 0) continue;
        part.from = part.from.count() > 0 ? piece_of(part.from, first, count) : Place{};
        part.to = part.to.count() > 0 ? piece_of(part.to, first, count) : Place{};
        part.elements = part.kind == ActionKind::kReduce || part.kind == ActionKind::kCopy ? 0 : count;
        add(part, steps_[i].receive, first);
      }
    }
  }

  void add(Action action, std::size_t receive, std::int64_t first) {
    const auto peer = static_cast<std::size_t>(action.peer);
    const auto at = static_cast<std::uint32_t>(program_.actions.size());
    if (action.kind == ActionKind::kSend) {
      action.index = sent_[peer]++;
      program_.elements_to[peer] += action.elements;
    }
    PACELINE_CHECK(action.kind != ActionKind::kSend || action.elements > 0 || action.index == 0, "only the first may be empty");
    if (action.kind == ActionKind::kReceive || action.kind == ActionKind::kReceiveAndReduce) {
      arrivals_.push_back({receive, first, at});
      program_.elements_from[peer] += action.elements;
    }
    const bool local = action.kind == ActionKind::kReduce || action.kind == ActionKind::kCopy;
    PACELINE_CHECK(!local || action.from.wrapped.count == 0, "a step in memory that reads two pieces");
    program_.actions.push_back(action);
  }

  // Messages are received in the order of the plan's receives, wherever their reductions stand.
  void number_receives() {
    std::sort(arrivals_.begin(), arrivals_.end());
    for (const Arrival& arrival : arrivals_) {
      Action& action = program_.actions[arrival.action];
      auto& from_peer = program_.receives[static_cast<std::size_t>(action.peer)];
      action.index = static_cast<std::uint32_t>(from_peer.size());
      from_peer.push_back(arrival.action);
    }
  }

  struct Arrival {
    std::size_t receive;
    std::int64_t first;
    std::uint32_t action;
    auto operator<=>(const Arrival&) const = default;
  };

  Program program_;
  std::vector<Fused> steps_;
  std::vector<std::uint32_t> sent_;  // by peer
  std::vector<Arrival> arrivals_;
  std::size_t received_ = 0;
  std::int64_t segment_ = 1;
};

}  // namespace

Program compile(const ProgramRequest& request) {
  return Compiler(request.rank, request.plan.ranks, request.plan.elements).run(request);
}

Program compile(const ExchangeRequest& request) {
  const std::int64_t taken = std::accumulate(request.takes.begin(), request.takes.end(), std::int64_t{0});
  return Compiler(request.rank, static_cast<int>(request.gives.size()), taken).run(request);
}

}  // namespace paceline::collectives
