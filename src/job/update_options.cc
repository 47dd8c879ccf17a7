#include "job/update_options.h"

#include <string>

#include "base/text.h"

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

}  // namespace paceline::job
