#include "collectives/exec/program.h"

#include <algorithm>

namespace paceline::collectives {
namespace {

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
  explicit Compiler(const ProgramRequest& request) : request_(request) {
    program_.rank = request.rank;
    program_.ranks = request.plan.ranks;
    program_.elements = request.plan.elements;
    program_.receives.resize(static_cast<std::size_t>(program_.ranks));
    program_.elements_from.resize(static_cast<std::size_t>(program_.ranks));
    program_.elements_to.resize(static_cast<std::size_t>(program_.ranks));
    sent_.resize(static_cast<std::size_t>(program_.ranks));
  }

  Program run() {
    const RankPlan plan = plan_of_rank(request_.plan, request_.rank);
    program_.scratch = plan.scratch;
    program_.cut = static_cast<std::uint32_t>(std::min<std::int64_t>(request_.plan.block, kMostCut));
    if (request_.agreement == Agreement::kBeforeCompletion && !waits_for_all(request_.plan)) add_agreement();
    const bool cut = request_.plan.algorithm == Algorithm::kRing || request_.plan.algorithm == Algorithm::kDirect;
    segment_ = cut ? request_.segment : std::max<std::int64_t>(1, request_.plan.elements);
    fuse(plan.steps);
    for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
      while (end < steps_.size() && steps_[end].round == steps_[begin].round) ++end;
      add_round(begin, end);
    }
    number_receives();
    return std::move(program_);
  }

 private:
  struct Fused {
    std::int64_t round;
    Action action;
    std::size_t receive;  // place of the message among all received; kReceive, kReceiveAndReduce
  };

  // The places of what was heard lie behind the scratch memory and take none: sending in round i reads what the rounds before have
  // written.
  void add_agreement() {
    const std::int64_t first = program_.scratch;
    std::int64_t round = 0;
    for (std::int64_t distance = 1; distance < program_.ranks; distance *= 2, ++round) {
      const auto peer = [&](std::int64_t offset) {
        return static_cast<int>((request_.rank + offset + program_.ranks) % program_.ranks);
      };
      Action send{ActionKind::kSend, peer(distance), 0, 0, {Memory::kScratch, {first, round}, {}}, {}};
      Action receive{ActionKind::kReceive, peer(-distance), 0, 0, {}, {Memory::kScratch, {first + round, 1}, {}}};
      steps_.push_back({-1, send, 0});
      steps_.push_back({-1, receive, received_++});
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

  const ProgramRequest& request_;
  Program program_;
  std::vector<Fused> steps_;
  std::vector<std::uint32_t> sent_;  // by peer
  std::vector<Arrival> arrivals_;
  std::size_t received_ = 0;
  std::int64_t segment_ = 1;
};

}  // namespace

Program compile(const ProgramRequest& request) { return Compiler(request).run(); }

}  // namespace paceline::collectives
