#include "collectives/exec/calibration.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "collectives/exec/expectation.h"
#include "collectives/exec/largest.h"

namespace paceline::collectives {
namespace {

struct Trial {
  Operation operation;
  std::int64_t size, block;  // bytes
};
// The first one only shows how fast the link is about, since connections are slow at first; the others are smaller where it is
// slow. They are large, and their blocks small, because a shaper lets some milliseconds' worth pass at once: that is little of so
// large a message, but a pipeline would be filled for nothing, and the fit would take the link to be faster. The last one is the
// largest.
constexpr std::array<Trial, 6> kTrials = {{
    {Operation::kBroadcast, 1'048'576, 65'536},
    {Operation::kBroadcast, 1'048'576, 32'768},
    {Operation::kBroadcast, 8'388'608, 32'768},
    {Operation::kBroadcast, 8'388'608, 131'072},
    {Operation::kReduce, 8'388'608, 65'536},
    {Operation::kBroadcast, 16'777'216, 65'536},
}};
constexpr int kRepetitions = 3;
// What shows the latency: messages of which the bytes take no time, along a tree.
constexpr Bytes kSmall{64};
// What shows the crowding: where a tree and an exchange are about as fast, so that it matters which of them is.
constexpr Bytes kExchanged{4096};
constexpr int kSmallRepetitions = 15;

std::int64_t divisor_for(double first) { return first > 0.5 ? 64 : first > 0.05 ? 8 : 1; }

// What adding a byte costs the memory, at least. A pipeline over a slower link hides it from the fit, and an exchange, which hides
// nothing, would look as good as a ring.
constexpr double kLeastGamma = 0.2e-9;

// What is left to say when a machine was so busy that longer operations took no longer: the fastest of them.
cost::LinkCost rate_alone(const std::vector<cost::CostSample>& samples) {
  cost::LinkCost cost{.beta = samples.front().seconds / samples.front().sent};
  for (const cost::CostSample& sample : samples) cost.beta = std::min(cost.beta, sample.seconds / sample.sent);
  return cost;
}

// What each hop of an exchange costs beyond its bytes, when it takes so much longer than a tree that moves more bytes.
double crowding_of(double behind_a_tree, int ranks, const cost::LinkCost& link) {
  CollectiveProblem problem{.operation = Operation::kAllreduce, .ranks = ranks, .size = kExchanged, .link = link};
  const double tree = cost_of(problem, Algorithm::kMinimumSpanningTree).value().seconds;
  const double exchange = cost_of(problem, Algorithm::kBidirectionalExchange).value().seconds;
  const auto crowded = crowded_hops(Operation::kAllreduce, Algorithm::kBidirectionalExchange, ranks);
  return std::max(0.0, (behind_a_tree - (exchange - tree)) / static_cast<double>(crowded));
}

class Calibrator {
 public:
  explicit Calibrator(Communicator& all) : all_(all), values_(static_cast<std::size_t>(kTrials.back().size) / sizeof(float)) {}

  Result<double> time(const Trial& trial) { return time(call_of(trial), kRepetitions); }

  // What a message along a tree takes beyond the start-up that the pipelines' fit will not go below.
  Result<double> latency() {
    PACELINE_ASSIGN_OR_RETURN(const double seconds, small(CollectiveKind::kBroadcast, Algorithm::kMinimumSpanningTree, kSmall));
    const auto messages = hops(Operation::kBroadcast, Algorithm::kMinimumSpanningTree, all_.size());
    return std::max(0.0, seconds / static_cast<double>(messages) - kLeastAlpha);
  }

  // By how many seconds an exchange takes longer than a tree.
  Result<double> behind_a_tree() {
    PACELINE_ASSIGN_OR_RETURN(const double tree, small(CollectiveKind::kAllreduce, Algorithm::kMinimumSpanningTree, kExchanged));
    PACELINE_ASSIGN_OR_RETURN(const double exchange,
                              small(CollectiveKind::kAllreduce, Algorithm::kBidirectionalExchange, kExchanged));
    return exchange - tree;
  }

 private:
  // The most, unlike a sum, is the same in every order.
  Result<double> small(CollectiveKind kind, Algorithm algorithm, Bytes size) {
    Call call{.kind = kind,
              .output = values_.data(),
              .count = size.count / static_cast<std::int64_t>(sizeof(float)),
              .reduction = ReductionKind::kMax,
              .algorithm = algorithm};
    if (kind == CollectiveKind::kAllreduce) call.input = values_.data();
    return time(call, kSmallRepetitions);
  }

  // The time of the slowest rank; the median of some.
  Result<double> time(const Call& call, int repetitions) {
    std::vector<double> times(static_cast<std::size_t>(repetitions));
    for (double& each : times) {
      PACELINE_RETURN_IF_ERROR(all_.run({.kind = CollectiveKind::kBarrier}));
      const auto begin = std::chrono::steady_clock::now();
      PACELINE_RETURN_IF_ERROR(all_.run(call));
      each = seconds(std::chrono::steady_clock::now() - begin);
    }
    PACELINE_RETURN_IF_ERROR(take_largest(all_, times));
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  Call call_of(const Trial& trial) {
    Call call{.kind = CollectiveKind::kBroadcast,
              .output = values_.data(),
              .count = trial.size / static_cast<std::int64_t>(sizeof(float)),
              .algorithm = Algorithm::kLinearPipeline,
              .block = Bytes{trial.block}};
    if (trial.operation == Operation::kReduce) {
      call.kind = CollectiveKind::kReduce;
      call.input = values_.data();
      call.root = all_.size() - 1;  // also legal in rank order
    }
    return call;
  }

  Communicator& all_;
  std::vector<float> values_;
};

}  // namespace

Status check_alike(Engine& engine, Communicator::Post post, Rank self, std::int32_t ranks, const CommunicatorOptions& options,
                   const std::vector<Setting>& settings) {
  Group group = world_group(self, ranks);
  group.id = kAgreementGroup;
  Communicator all(engine, std::move(post), std::move(group), options);
  // The most of each value and of its opposite: the least.
  std::vector<double> values;
  for (const Setting& setting : settings) {
    values.push_back(setting.value);
    values.push_back(-setting.value);
  }
  PACELINE_RETURN_IF_ERROR(take_largest(all, values));
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const double most = values[2 * i], least = -values[2 * i + 1];
    if (least == most) continue;
    return error(ErrorKind::kBadRequest, "the ranks have different values of {}, from {} to {} ({} here); give the same everywhere",
                 settings[i].name, least, most, settings[i].value)
        .because({"disagree", ""});
  }
  return {};
}

Result<Calibration> calibrate(Engine& engine, const Communicator::Post& post, Rank self, std::int32_t ranks,
                              const CommunicatorOptions& options, CompareLinks compare) {
  Calibration calibration;
  calibration.fit.cost = calibration.expected.link = Rules{}.link;
  if (ranks == 1) return calibration;
  Group group = world_group(self, ranks);
  group.id = kCalibrationGroup;
  Communicator all(engine, post, std::move(group), options);
  Calibrator calibrator(all);
  std::int64_t divisor = 1;
  double behind_a_tree = 0;
  LinkTrial link_trial;
  for (std::size_t i = 0; i < kTrials.size(); ++i) {
    const Trial trial{kTrials[i].operation, kTrials[i].size / divisor, kTrials[i].block / divisor};
    PACELINE_ASSIGN_OR_RETURN(const double time, calibrator.time(trial));
    if (i == 0) {
      divisor = divisor_for(time);
      link_trial = link_trial_for(time);
      PACELINE_ASSIGN_OR_RETURN(calibration.latency, calibrator.latency());
      PACELINE_ASSIGN_OR_RETURN(behind_a_tree, calibrator.behind_a_tree());
      continue;
    }
    calibration.samples.push_back({trial.operation, Bytes{trial.size}, Bytes{trial.block}, time});
  }
  std::vector<cost::CostSample> samples;
  for (const CalibrationSample& sample : calibration.samples) samples.push_back(in_model(sample, ranks, {}));
  // The choice is made for pipelines that are full: what a block costs shows in long messages.
  const auto fit = cost::fit_cost(std::span(samples).subspan(1));
  calibration.fit.cost = fit.ok() ? fit->cost : rate_alone(samples);
  calibration.expected = expectation(calibration.samples, ranks, calibration.latency).value_or(Expectation{calibration.fit.cost});
  cost::LinkCost& fitted = calibration.fit.cost;
  fitted.alpha = std::max(fitted.alpha, kLeastAlpha);
  fitted.gamma = std::max(fitted.gamma, kLeastGamma);
  calibration.crowding = crowding_of(behind_a_tree, ranks, fitted);
  calibration.fit.residual = cost::residual(fitted, std::span(samples).subspan(1));
  if (compare == CompareLinks::kNo || options.rules.order == SumOrder::kRank) return calibration;
  PACELINE_ASSIGN_OR_RETURN(const std::optional<LinkRates> links, measure_links(engine, post, self, ranks, options, link_trial));
  if (links && fitted.beta > 0) calibration.links = std::make_shared<const LinkRates>(links->scaled_to(fitted.beta));
  return calibration;
}

}  // namespace paceline::collectives
