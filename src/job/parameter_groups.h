// Parameter groups by pattern of names: which tensors are updated with another learning rate or weight decay than the rest. Plain
// values, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/update_options.h"
#include "wire/tensor_table.h"

namespace paceline::job {

// Of the tensors whose name fits, those that no earlier rule has taken.
struct GroupRule {
  std::string pattern;                 // of the whole name: * is any text, ? any letter; others stand for themselves
  double learning_rate_factor = 1;     // times the schedule's rate; 0 (the tensors stay as they are, but for adamw's decay) to 1e6
  std::optional<double> weight_decay;  // at least 0; nothing: the job's

  bool operator==(const GroupRule&) const = default;
};

bool fits(std::string_view pattern, std::string_view name);

// "*.bias:decay=0;fc*:rate=0.1,decay=1e-4": rules in order, each a pattern and at least one of `rate` (the factor) and `decay`.
// kBadRequest that names the part and what is legal. "" is no rule.
Result<std::vector<GroupRule>> parse_groups(std::string_view text);
std::string to_text(const std::vector<GroupRule>& rules);  // as parse_groups reads it, without spelled-out defaults

// Puts every tensor of `table` into its group and says in `update` how groups are updated; without rules nothing changes. Group 0
// is of those that no rule takes. kBadRequest when a rule takes no tensor, which is a name mistyped.
Status assign_groups(const std::vector<GroupRule>& rules, wire::TensorTable& table, UpdateOptions& update);

}  // namespace paceline::job
