#include "planner/tuning/choose_collective.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "collectives/exec/calibration.h"
#include "collectives/training/loop_options.h"
#include "collectives/training/unit_flags.h"
#include "job/make_plan.h"
#include "planner/tuning/choice.h"
#include "tensor/reduce.h"

namespace paceline::tuning {
namespace {

using collectives::Call;
using collectives::call_of;
using collectives::rules_of;
using collectives::TrainingOptions;
using collectives::TrainingStep;
using report::Json;

constexpr std::int64_t kMostMerged = 8'000'000 / kParameterBytes;  // parameters: more would be sent too late

// Seconds for each byte that is added to another one, on this machine.
double measure_gamma() {
  constexpr std::size_t kElements = 262'144;
  constexpr int kTimes = 5;
  const SystemClock clock;
  std::vector<float> sum(kElements, 1.0F);
  const std::vector<float> addend(kElements, 1.0F);
  Duration least = Duration::max();
  for (int i = 0; i < kTimes; ++i) {
    const TimePoint began = clock.now();
    tensor::add_into(std::span(sum), std::span(addend));
    least = std::min<Duration>(least, clock.now() - began);
  }
  return seconds(least) / static_cast<double>(kElements * kParameterBytes);
}

// The operations of one round of a unit with so many parameters; `summed` is what is added up of it (unit_flags.h).
std::vector<std::pair<Call, collectives::Choice>> operations_of(const TrainingOptions& options, std::int32_t workers,
                                                                std::int64_t elements, std::int64_t summed) {
  collectives::Group group;
  for (std::int32_t rank = 0; rank < workers; ++rank) group.ranks.push_back(Rank{rank});
  std::vector<TrainingStep> steps = {TrainingStep::kReduce};
  if (!updates_everywhere(options.loop)) steps.push_back(TrainingStep::kBroadcast);
  std::vector<std::pair<Call, collectives::Choice>> operations;
  for (const TrainingStep step : steps) {
    const Call call = call_of(options, workers, step, step == TrainingStep::kReduce ? summed : elements);
    operations.emplace_back(call, choose(group, call, rules_of(options, workers)));
  }
  return operations;
}

double predicted(const TrainingOptions& options, std::int32_t workers, std::int64_t elements) {
  double sum = 0;
  for (const auto& [call, choice] : operations_of(options, workers, elements, elements)) sum += choice.seconds;
  return sum;
}

// The most parameters of which sending them is predicted to be start-up for at least half of the time: better sent with others.
std::int64_t worth_merging(const TrainingOptions& options, std::int32_t workers) {
  const double start_up = predicted(options, workers, 1);
  std::int64_t elements = 1;
  while (elements < kMostMerged && predicted(options, workers, 2 * elements) <= 2 * start_up) elements *= 2;
  return elements > 1 ? std::min(elements, kMostMerged) : 0;
}

Json describe(const std::pair<Call, collectives::Choice>& operation) {
  const auto& [call, choice] = operation;
  return {{"operation", collectives::to_string(call.kind)},
          {"bytes", call.count * kParameterBytes},
          {"algorithm", choice.algorithm ? Json(collectives::to_string(*choice.algorithm)) : Json(nullptr)},
          {"block", choice.block ? Json(choice.block->count) : Json(nullptr)},
          {"seconds", choice.seconds}};
}

// "allreduce by direct", "reduce by lp, broadcast by lp and mst"
std::string algorithms_in(const Json& operations) {
  std::map<std::string, std::vector<std::string>> by_operation;
  for (const Json& operation : operations) {
    if (operation["algorithm"].is_null()) continue;
    auto& algorithms = by_operation[operation["operation"].get<std::string>()];
    const std::string name = operation["algorithm"].get<std::string>();
    if (std::find(algorithms.begin(), algorithms.end(), name) == algorithms.end()) algorithms.push_back(name);
  }
  std::vector<std::string> texts;
  for (const auto& [operation, algorithms] : by_operation)
    texts.push_back(fmt::format("{} by {}", operation, fmt::join(algorithms, " and ")));
  return texts.empty() ? "nothing to move" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

Result<Json> choose_collective(job::JobSpec& settings, const wire::TensorTable& table, std::int32_t workers,
                               const runtime::Gathering& gathering) {
  if (settings.has_servers()) return Json();
  const bool kept = settings.loop.link.has_value();
  if (!gathering.link && !kept) {
    log::warn("the link could not be measured; --collective assumes {}", words_of(kAssumedLink));
  }
  cost::LinkFit link = gathering.link.value_or(kAssumedLink);
  if (!kept) {
    settings.loop.link =
        cost::LinkCost{std::max(link.start_up, collectives::kLeastAlpha), 1 / link.bandwidth.value, measure_gamma()};
  }
  PACELINE_ASSIGN_OR_RETURN(const TrainingOptions options, job::training_of(settings));
  const cost::LinkCost cost = options.link;
  if (kept) link = {.start_up = cost.alpha, .bandwidth = {1 / cost.beta}, .residual = 0};
  if (!settings.schedule.merge && overlaps(options.loop)) {
    // The link is as it is, also where a replay divides all sizes.
    const double merge = static_cast<double>(worth_merging(options, workers)) * settings.task.scale;
    settings.schedule.merge = static_cast<std::int64_t>(merge);
  }

  PACELINE_ASSIGN_OR_RETURN(const auto plan, job::make_plan(settings, table, workers, 0, 1));
  Json operations = Json::array();
  double seconds_of_all = 0;
  const collectives::UnitFlags flags(workers, plan->options().update.verdict);
  // Frozen ones travel once, in front of the first iteration.
  for (const scheduling::Unit& unit : std::span(plan->units().units).first(plan->units().moving)) {
    for (const auto& operation : operations_of(options, workers, unit.elements, flags.staged_elements(unit))) {
      seconds_of_all += operation.second.seconds;
      operations.push_back(describe(operation));
    }
  }
  const bool in_rank_order = rules_of(options, workers).order == collectives::SumOrder::kRank;
  std::string why = fmt::format("{} an iteration; {}, {}, predicted {} without overlap: {} ({}), adding at {}",
                                counted(static_cast<std::int64_t>(operations.size()), "message"), algorithms_in(operations),
                                options.algorithm ? "as asked for" : "of those that sum in rank order the fastest predicted",
                                to_text(from_seconds(seconds_of_all)), words_of(link),
                                kept             ? "kept from the checkpoint"
                                : gathering.link ? how_measured(link)
                                                 : "assumed",
                                to_text(BytesPerSecond{1 / cost.gamma}));
  return Json{{"loop", to_string(options.loop)},
              {"algorithm", options.algorithm ? collectives::to_string(*options.algorithm) : "best"},
              {"block", options.block ? Json(options.block->count) : Json(nullptr)},
              {"sum_order", in_rank_order ? "rank" : "algorithm"},
              {"broadcast_every", settings.loop.broadcast_every},
              {"merge", plan->options().schedule.cut.merge},
              {"alpha", cost.alpha},
              {"beta", cost.beta},
              {"gamma", cost.gamma},
              {"residual", link.residual},
              {"measured", kept || gathering.link.has_value()},
              {"kept", kept},
              {"seconds", seconds_of_all},
              {"operations", std::move(operations)},
              {"why", std::move(why)}};
}

}  // namespace paceline::tuning
