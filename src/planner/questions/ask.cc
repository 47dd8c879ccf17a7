#include "planner/questions/ask.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "planner/questions/cases.h"

namespace paceline::planner {
namespace {

Result<Json> answer_case(const Question& question, Json given) {
  Json choices = Json::object();
  for (const Choice& choice : question.choices) {
    choices[choice.name] = choice.values.front();
    if (!given.is_object() || !given.contains(choice.name)) continue;
    const std::string where = fmt::format("key '{}'", choice.name);
    const Json& value = given[choice.name];
    if (!value.is_string())
      return wrong("{} is {} (a {}); it must be a string", where, brief(value), value.type_name()).because({"", choice.name});
    PACELINE_ASSIGN_OR_RETURN(choices[choice.name], checked_choice(choice, value, where));
    given.erase(choice.name);
  }
  PACELINE_ASSIGN_OR_RETURN(const Json input, checked_case(question, given, Json::object()));
  return answer_to(question, input, choices);
}

}  // namespace

Result<Json> ask(const Question& question, const Json& settings) {
  if (!settings.is_array()) {
    auto answer = answer_case(question, settings);
    return answer.ok() ? std::move(answer) : as_refusal(answer.status());
  }
  Json answers = Json::array();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    auto answer = answer_case(question, settings[i]);
    if (!answer.ok()) return as_refusal(at(fmt::format("case {}", i), answer.status()));
    answers.push_back(std::move(answer).value());
  }
  return answers;
}

Status as_refusal(const Status& status) { return status.because({status.kind() == ErrorKind::kBadRequest ? "illegal" : "", ""}); }

Result<std::string> checked_choice(const Choice& choice, const std::string& value, const std::string& where) {
  if (std::ranges::find(choice.values, value) != choice.values.end()) return value;
  return wrong("{} has no value '{}'{}; legal are {}", where, value, suggestion(value, choice.values),
               fmt::join(choice.values, ", "))
      .because({"illegal", choice.name});
}

Json described_questions() {
  Json all = Json::array();
  for (const Question& question : questions()) {
    Json keys = Json::array(), choices = Json::array();
    for (const Key& key : question.keys)
      keys.push_back({{"name", key.name}, {"type", to_string(key.type)}, {"required", key.required}, {"help", key.help}});
    for (const Choice& choice : question.choices)
      choices.push_back({{"name", choice.name}, {"values", choice.values}, {"help", choice.help}});
    all.push_back(
        {{"name", question.name}, {"purpose", question.purpose}, {"keys", std::move(keys)}, {"choices", std::move(choices)}});
  }
  return all;
}

}  // namespace paceline::planner
