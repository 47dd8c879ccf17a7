#include "collectives/training/loop_options.h"

#include <algorithm>

#include "collectives/exec/operation.h"

namespace paceline::collectives {
namespace {

Operation reduction_of(Loop loop) { return updates_everywhere(loop) ? Operation::kAllreduce : Operation::kReduce; }

bool can(Operation operation, Algorithm algorithm) {
  const auto legal = algorithms_for(operation);
  return std::find(legal.begin(), legal.end(), algorithm) != legal.end();
}

}  // namespace

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
  call.block = options.block;
  return call;
}

}  // namespace paceline::collectives
