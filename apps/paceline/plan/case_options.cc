#include "paceline/plan/case_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "base/wrong.h"
#include "planner/questions/cases.h"

namespace paceline::cli {
namespace {

using planner::CaseIndex;
using planner::Key;
using planner::KeyType;
using planner::Question;

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Json> number_from_text(const std::string& text) {
  const auto number = plain_number(text);
  if (!number || !std::isfinite(*number)) return wrong("'{}' is not a number", text);
  return Json(*number);
}

template <typename Read>
Result<Json> list_from_text(const std::string& text, const Read& item_from_text) {
  Json list = Json::array();
  std::size_t start = 0;
  while (!text.empty() && start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string item = text.substr(start, comma - start);
    item.erase(0, item.find_first_not_of(' '));
    PACELINE_ASSIGN_OR_RETURN(Json number, item_from_text(item));
    list.push_back(std::move(number));
    start = comma + 1;
  }
  return list;
}

Result<Json> value_from_text(const Key& key, const std::string& text) {
  switch (key.type) {
    case KeyType::kBytes:
    case KeyType::kRate:
    case KeyType::kSeconds:
      return planner::amount_from_text(key, text);
    case KeyType::kNumber:
    case KeyType::kCount:
      return number_from_text(text);
    case KeyType::kText:
      return Json(text);
    case KeyType::kNumbers:
    case KeyType::kCounts:
      return list_from_text(text, number_from_text);
    case KeyType::kRates:
      return list_from_text(text, [&key](const std::string& item) { return planner::amount_from_text(key, item); });
    case KeyType::kJson:
      return planner::parse_json(text, "the JSON text", CaseIndex::kNone);
  }
  PACELINE_CHECK(false, "unknown key type");
}

}  // namespace

std::string option_name(const std::string& key) {
  if (key == "input") return "--input-size";  // --input is the file with the cases
  std::string name = "--" + key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Result<Json> values_from_options(const Question& question, const std::map<std::string, std::string>& values) {
  Json checked = Json::object();
  for (const Key& key : question.keys) {
    const auto given = values.find(key.name);
    if (given == values.end()) continue;
    auto value = value_from_text(key, given->second);
    if (!value.ok()) return wrong("{}: {}", option_name(key.name), value.status().message());
    PACELINE_ASSIGN_OR_RETURN(checked[key.name], planner::checked_value(key, *value, option_name(key.name)));
  }
  return checked;
}

Result<Json> case_from_options(const Question& question, const std::map<std::string, std::string>& values) {
  for (const Key& key : question.keys) {
    if (key.required && !values.contains(key.name))
      return wrong("{} is missing; it is {}", option_name(key.name), key.help).because({"missing", option_name(key.name)});
  }
  return values_from_options(question, values);
}

}  // namespace paceline::cli
