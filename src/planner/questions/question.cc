#include "planner/questions/question.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/wrong.h"

namespace paceline::planner {
namespace {

// JSON cannot write a number that is not finite; a null in its place would be silently wrong.
Status require_finite(const Json& value, const std::string& where) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return wrong("the result '{}' is beyond what a double can hold; give smaller numbers", where);
  if (value.is_structured()) {
    for (const auto& [key, inner] : value.items()) {
      PACELINE_RETURN_IF_ERROR(
          require_finite(inner, value.is_array() ? where : (where.empty() ? key : fmt::format("{}.{}", where, key))));
    }
  }
  return {};
}

}  // namespace

const char* to_string(KeyType type) {
  constexpr const char* kNames[] = {"bytes", "rate", "seconds", "number", "count", "text", "numbers", "rates", "counts", "json"};
  return kNames[static_cast<std::size_t>(type)];
}

const std::vector<Question>& questions() {
  static const std::vector<Question> all = [] {
    std::vector<Question> table;
    for (auto& group : {communication_questions(), cluster_questions(), device_questions()})
      table.insert(table.end(), group.begin(), group.end());
    table.push_back(job_question());
    return table;
  }();
  return all;
}

const Question* find_question(std::string_view name) {
  const auto found = std::ranges::find(questions(), name, &Question::name);
  return found == questions().end() ? nullptr : &*found;
}

Result<Json> answer_to(const Question& question, const Json& input, const Json& choices) {
  PACELINE_ASSIGN_OR_RETURN(Json answer, question.answer(input, choices));
  PACELINE_RETURN_IF_ERROR(require_finite(answer, ""));
  return answer;
}

std::vector<std::string> keys_given(const Json& input, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return input.contains(name); });
  return found;
}

Status require_positive(const Json& input, const std::vector<std::string>& names) {
  for (const std::string& name : keys_given(input, names)) {
    if (!(input[name].get<double>() > 0)) return wrong_key(name, " is 0; it must be above zero");
  }
  return {};
}

Status require_one(const Json& input, const char* key) {
  if (input[key].get<std::int64_t>() >= 1) return {};
  return wrong_key(key, " is 0; at least 1 is needed");
}

Json infeasible(const std::vector<std::string>& keys, const std::string& reason) {
  Json answer = Json::object();
  answer["feasible"] = false;
  for (const std::string& key : keys) answer[key] = nullptr;
  answer["reason"] = reason;
  return answer;
}

}  // namespace paceline::planner
