#include "job/update_options.h"

#include <string>

#include "base/text.h"
#include "job/spec.h"

namespace paceline::job {
namespace {

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = {"stop", "skip", "apply"};
  return names;
}

}  // namespace

const char* to_string(NonFinitePolicy policy) { return policy_names()[static_cast<std::size_t>(policy)].c_str(); }

Result<NonFinitePolicy> parse_non_finite_policy(std::string_view text) {
  for (std::size_t i = 0; i < policy_names().size(); ++i) {
    if (text == policy_names()[i]) return static_cast<NonFinitePolicy>(i);
  }
  return error(ErrorKind::kBadRequest, "'{}' is no policy for non-finite gradients; legal are stop, skip, apply{}", text,
               suggestion(text, policy_names()));
}

tensor::Schedule learning_rate_of(const JobSpec& spec) {
  const bool counts = !spec.update.told_rates;  // else it is as it always was, for checkpoints tell it
  const auto kind = counts ? spec.update.optimizer.kind : tensor::OptimizerKind::kSgd;
  return spec.learning_rate.value_or(tensor::Schedule{.base = tensor::traits_of(kind).usual_rate});
}

UpdateOptions server_update(const JobSpec& spec) {
  UpdateOptions update = spec.update;
  update.learning_rate = learning_rate_of(spec);
  if (spec.wire.kind == WireKind::kDgc) {
    update.optimizer.kind = tensor::OptimizerKind::kSgd;
    update.clip_norm = 0;
  }
  return update;
}

}  // namespace paceline::job
