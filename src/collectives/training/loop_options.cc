#include "collectives/training/loop_options.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/text.h"
#include "collectives/exec/operation.h"

namespace paceline::collectives {
namespace {

constexpr std::array<const char*, 4> kLoops = {"loop1", "loop2", "loop3", "loop3-overlap"};
constexpr std::array<Algorithm, 5> kAlgorithms = {Algorithm::kLinearPipeline, Algorithm::kRing, Algorithm::kDirect,
                                                  Algorithm::kMinimumSpanningTree, Algorithm::kBidirectionalExchange};

Operation reduction_of(Loop loop) { return updates_everywhere(loop) ? Operation::kAllreduce : Operation::kReduce; }

bool can(Operation operation, Algorithm algorithm) {
  const auto legal = algorithms_for(operation);
  return std::find(legal.begin(), legal.end(), algorithm) != legal.end();
}

std::vector<std::string> names_for(Operation operation) {
  std::vector<std::string> names = {"best"};
  for (const Algorithm algorithm : algorithms_for(operation)) names.emplace_back(to_string(algorithm));
  return names;
}

}  // namespace

const char* to_string(Loop loop) { return kLoops[static_cast<std::size_t>(loop)]; }

Result<Loop> parse_loop(std::string_view name) {
  for (std::size_t i = 0; i < kLoops.size(); ++i) {
    if (name == kLoops[i]) return static_cast<Loop>(i);
  }
  std::vector<std::string> names = {"none"};
  names.insert(names.end(), kLoops.begin(), kLoops.end());
  return error(ErrorKind::kBadRequest, "'{}' is no loop; legal are {}{}", name, fmt::join(names, ", "), suggestion(name, names));
}

Result<std::optional<Algorithm>> parse_algorithm(std::string_view name) {
  if (name == "best") return std::optional<Algorithm>();
  std::vector<std::string> names = {"best"};
  for (const Algorithm algorithm : kAlgorithms) {
    if (name == to_string(algorithm)) return std::optional(algorithm);
    names.emplace_back(to_string(algorithm));
  }
  return error(ErrorKind::kBadRequest, "'{}' is no algorithm; legal are {}{}", name, fmt::join(names, ", "),
               suggestion(name, names));
}

Status validate(const TrainingOptions& options) {
  const Operation operation = reduction_of(options.loop);
  if (options.algorithm && !can(operation, *options.algorithm)) {
    return error(ErrorKind::kBadRequest, "--algorithm {} cannot run the {} of --collective {}; legal: {}",
                 to_string(*options.algorithm), to_string(operation), to_string(options.loop),
                 fmt::join(names_for(operation), ", "));
  }
  if (options.broadcast_every != 0 && !updates_everywhere(options.loop)) {
    return error(ErrorKind::kBadRequest,
                 "--broadcast-every {} contradicts --collective {}, which broadcasts the weights in every iteration; legal with "
                 "loop3 and loop3-overlap",
                 options.broadcast_every, to_string(options.loop));
  }
  return {};
}

Rank root_of(const TrainingOptions& options, std::int32_t workers) {
  return updates_everywhere(options.loop) ? Rank{0} : Rank{workers - 1};
}

Rules rules_of(const TrainingOptions& options, std::int32_t workers) {
  Rules rules;
  rules.link = options.link;
  rules.order = SumOrder::kRank;
  // The processes of a job have compared their settings and tensors before the first operation.
  rules.agreement = Agreement::kWithData;
  if (options.algorithm) {
    const auto legal = legal_algorithms(reduction_of(options.loop), SumOrder::kRank, workers, root_of(options, workers).value,
                                        ReductionKind::kSum);
    if (std::find(legal.begin(), legal.end(), *options.algorithm) == legal.end()) rules.order = SumOrder::kAny;
  }
  return rules;
}

Call call_of(const TrainingOptions& options, std::int32_t workers, TrainingStep step, std::int64_t elements) {
  Call call;
  call.count = elements;
  call.kind = CollectiveKind::kBroadcast;
  call.root = root_of(options, workers).value;
  if (step == TrainingStep::kReduce) {
    const bool everywhere = updates_everywhere(options.loop);
    call.kind = everywhere ? CollectiveKind::kAllreduce : CollectiveKind::kReduce;
    if (everywhere) call.root = 0;
  }
  const Operation operation = step == TrainingStep::kReduce ? reduction_of(options.loop) : Operation::kBroadcast;
  if (options.algorithm && can(operation, *options.algorithm)) call.algorithm = options.algorithm;
  return call;
}

}  // namespace paceline::collectives
