// How a job's parameters are updated from the sum of its workers' gradients. Plain data, any thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/learning_rate.h"
#include "tensor/optimizer.h"

namespace paceline::job {

// What happens when a gradient holds an infinity or a NaN.
enum class NonFinitePolicy {
  kStop,   // the job stops and names worker, layer and iteration
  kSkip,   // the iteration changes nothing on any server: values, optimizer state and step counts stay. Costs overlap: every update
           // of an iteration is held until all gradients of the iteration have arrived on all servers.
  kApply,  // it is applied like any other
};
const char* to_string(NonFinitePolicy policy);  // "stop", "skip", "apply"
Result<NonFinitePolicy> parse_non_finite_policy(std::string_view text);

// Tensors that are updated alike; TensorInfo::group is an index into UpdateOptions::groups.
struct ParameterGroup {
  double learning_rate_factor = 1;  // times the schedule's rate; finite, at least 0
  double weight_decay = 0;          // finite, at least 0

  bool operator==(const ParameterGroup&) const = default;
};

struct UpdateOptions {
  tensor::OptimizerOptions optimizer;  // its weight_decay is that of group 0 when `groups` is empty, and not used otherwise
  tensor::Schedule learning_rate;      // by iteration
  // Largest global norm of an iteration's gradient (of the mean over the workers); 0: not clipped. The same bits for any number of
  // servers and any cut (tensor/exact_square_sum.h). Costs overlap like NonFinitePolicy::kSkip.
  double clip_norm = 0;
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  bool verdict = false;                // kMean: workers hear of every iteration what exchange/verdict.h says
  bool verdict_first = false;          // with verdict: workers use no mean before it, so gradients leave before means
  bool told_rates = false;             // workers tell learning rate and weight decay of each group with every iteration
  std::vector<ParameterGroup> groups;  // empty: one group, or with told_rates those that tensors are in

  // Whether updates are held until the whole iteration is there on all servers.
  bool holds_updates() const { return clip_norm > 0 || non_finite == NonFinitePolicy::kSkip; }
  bool operator==(const UpdateOptions&) const = default;
};

}  // namespace paceline::job
