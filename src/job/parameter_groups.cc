#include "job/parameter_groups.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace paceline::job {
namespace {

constexpr double kLargestFactor = 1e6;
constexpr const char* kForm = "PATTERN:rate=FACTOR,decay=DECAY, several with ; between";

Status refused(std::string_view part, const std::string& why) {
  return error(ErrorKind::kBadRequest, "--parameter-groups: '{}' {}; legal: {}", part, why, kForm);
}

// What is before the first `mark`; `rest` goes on behind it.
std::string_view up_to(char mark, std::string_view& rest) {
  const std::size_t at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

Status set_value(std::string_view part, GroupRule& rule) {
  std::string_view text = part;
  const std::string_view key = up_to('=', text);
  double value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = problem == std::errc() && end == text.data() + text.size() && value >= 0 && std::isfinite(value);
  if (key == "rate") {
    if (!number || value > kLargestFactor) return refused(part, "is no factor of the learning rate, 0 to 1000000");
    rule.learning_rate_factor = value;
    return {};
  }
  if (key == "decay") {
    if (!number || !std::isfinite(static_cast<float>(value))) return refused(part, "is no weight decay, 0 and more");
    rule.weight_decay = value;
    return {};
  }
  return refused(part, "is neither rate=FACTOR nor decay=DECAY");
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<std::vector<GroupRule>> parse_groups(std::string_view text) {
  std::vector<GroupRule> rules;
  while (!text.empty()) {
    const std::string_view whole = up_to(';', text);
    std::string_view values = whole;
    GroupRule rule{.pattern = std::string(up_to(':', values))};
    if (rule.pattern.empty()) return refused(whole, "has no pattern");
    if (values.empty()) return refused(whole, "says nothing of its tensors");
    while (!values.empty()) PACELINE_RETURN_IF_ERROR(set_value(up_to(',', values), rule));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::string to_text(const std::vector<GroupRule>& rules) {
  std::string text;
  for (const GroupRule& rule : rules) {
    if (!text.empty()) text += ';';
    const bool rate = rule.learning_rate_factor != 1 || !rule.weight_decay;
    text += rule.pattern + ":";
    if (rate) text += fmt::format("rate={}", rule.learning_rate_factor);
    if (rule.weight_decay) text += fmt::format("{}decay={}", rate ? "," : "", *rule.weight_decay);
  }
  return text;
}

Status assign_groups(const std::vector<GroupRule>& rules, wire::TensorTable& table, UpdateOptions& update) {
  if (rules.empty()) return {};
  const double usual = update.optimizer.weight_decay;
  update.groups = {{.learning_rate_factor = 1, .weight_decay = usual}};
  for (const GroupRule& rule : rules)
    update.groups.push_back({.learning_rate_factor = rule.learning_rate_factor, .weight_decay = rule.weight_decay.value_or(usual)});
  std::vector<char> used(rules.size(), 0);
  std::vector<std::string> names;
  for (wire::TensorInfo& tensor : table.tensors) {
    names.push_back(tensor.name);
    tensor.group = 0;
    for (std::size_t i = 0; i < rules.size() && tensor.group == 0; ++i) {
      if (!fits(rules[i].pattern, tensor.name)) continue;
      tensor.group = static_cast<std::int32_t>(i) + 1;
      used[i] = 1;
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (used[i] != 0) continue;
    return Status(
        ErrorKind::kBadRequest,
        fmt::format("--parameter-groups: no parameter fits '{}'{}, or earlier rules took all that do; those of this job are {}{}",
                    rules[i].pattern, suggestion(rules[i].pattern, names), names.empty() ? "none" : names.front(),
                    names.size() > 1 ? fmt::format(" to {}", names.back()) : ""),
        {"contradiction", "--parameter-groups"});
  }
  return {};
}

}  // namespace paceline::job
