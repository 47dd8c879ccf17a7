#include "planner/questions/cases.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"

namespace paceline::planner {
namespace {

Result<double> checked_number(const Json& value, const std::string& where) {
  if (!value.is_number()) return wrong("{} is {} (a {}); it must be a number", where, brief(value), value.type_name());
  const double number = value.get<double>();
  if (!std::isfinite(number)) return wrong("{} is not a finite number", where);
  if (number < 0) return wrong("{} is {}; it must not be negative", where, brief(value));
  return number == 0 ? 0.0 : number;  // -0.0 becomes 0.0
}

Result<std::int64_t> checked_count(const Json& value, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const double number, checked_number(value, where));
  if (number != std::floor(number)) return wrong("{} is {}; it must be a whole number", where, brief(value));
  if (number > static_cast<double>(kLargestCount))
    return wrong("{} is {}; at most 2^53 = {} can be handled", where, brief(value), kLargestCount);
  return static_cast<std::int64_t>(number);
}

// Numbers anywhere inside a kJson value.
Status checked_inside(const Json& value, const std::string& where) {
  if (value.is_number()) return checked_number(value, where).status();
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      PACELINE_RETURN_IF_ERROR(checked_inside(value[i], fmt::format("{}[{}]", where, i)));
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      PACELINE_RETURN_IF_ERROR(checked_inside(inner, fmt::format("{}.{}", where, key)));
  }
  return {};
}

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Json> bytes_from_text(const Key& key, const std::string& text) {
  if (const auto number = plain_number(text)) {
    if (*number > 0 && *number < key.bare_from)
      return wrong("'{}' has no unit; write {}GB, or {}B if you mean bytes", text, text, text);
    return Json(*number);
  }
  PACELINE_ASSIGN_OR_RETURN(const Bytes bytes, parse_bytes(text));
  return Json(bytes.count);
}

// Not parse_duration, which counts whole nanoseconds: a formula may well be asked about 0.1 ns per byte. Dividing by a power of ten
// that is exact gives the same double as the number written in seconds.
Result<Json> seconds_from_text(const std::string& text) {
  struct Unit {
    std::string_view name;
    double divisor;
  };
  static constexpr std::array<Unit, 5> kUnits = {{{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}, {"", 1}}};
  for (const Unit& unit : kUnits) {
    if (text.size() <= unit.name.size() || !text.ends_with(unit.name)) continue;
    if (const auto number = plain_number(std::string_view(text).substr(0, text.size() - unit.name.size())))
      return Json(*number / unit.divisor);
  }
  PACELINE_ASSIGN_OR_RETURN(const Duration duration, parse_duration(text));
  return Json(seconds(duration));
}

// A text with its unit stands for its number.
Result<Json> number_of(const Key& key, const Json& value, const std::string& where) {
  if (!value.is_string()) return value;
  if (plain_number(value.get<std::string>()))
    return wrong("{} is {} (a string without a unit); it must be a number, or a text with its unit", where, brief(value));
  auto number = amount_from_text(key, value.get<std::string>());
  if (!number.ok()) return wrong("{}: {}", where, number.status().message());
  return number;
}

const Key* find_key(const Question& question, const std::string& name) {
  const auto found = std::find_if(question.keys.begin(), question.keys.end(), [&](const Key& key) { return key.name == name; });
  return found == question.keys.end() ? nullptr : &*found;
}

}  // namespace

Result<Json> amount_from_text(const Key& key, const std::string& text) {
  if (key.type == KeyType::kBytes) return bytes_from_text(key, text);
  if (key.type == KeyType::kSeconds) return seconds_from_text(text);
  PACELINE_ASSIGN_OR_RETURN(const BytesPerSecond rate, parse_rate(text));
  return Json(rate.value);
}

Result<Json> checked_value(const Key& key, const Json& value, const std::string& where) {
  switch (key.type) {
    case KeyType::kCount: {
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, checked_count(value, where));
      return Json(count);
    }
    case KeyType::kBytes: {
      PACELINE_ASSIGN_OR_RETURN(const Json said, number_of(key, value, where));
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, checked_count(said, where));
      return Json(count);
    }
    case KeyType::kNumber: {
      PACELINE_ASSIGN_OR_RETURN(const double number, checked_number(value, where));
      return Json(number);
    }
    case KeyType::kSeconds:
    case KeyType::kRate: {
      PACELINE_ASSIGN_OR_RETURN(const Json said, number_of(key, value, where));
      PACELINE_ASSIGN_OR_RETURN(const double number, checked_number(said, where));
      if (key.type == KeyType::kRate && number == 0) return wrong("{} is 0; a rate must be above zero", where);
      return Json(number);
    }
    case KeyType::kText:
      if (!value.is_string()) return wrong("{} is {} (a {}); it must be a string", where, brief(value), value.type_name());
      return value;
    case KeyType::kNumbers:
    case KeyType::kRates:
    case KeyType::kCounts: {
      if (!value.is_array())
        return wrong("{} is {} (a {}); it must be an array of numbers", where, brief(value), value.type_name());
      Json list = Json::array();
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string element = fmt::format("{}[{}]", where, i);
        if (key.type == KeyType::kCounts) {
          PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, checked_count(value[i], element));
          list.push_back(count);
        } else {
          const bool rate = key.type == KeyType::kRates;
          PACELINE_ASSIGN_OR_RETURN(const Json said, rate ? number_of(key, value[i], element) : Result<Json>(value[i]));
          PACELINE_ASSIGN_OR_RETURN(const double number, checked_number(said, element));
          if (rate && number == 0) return wrong("{} is 0; a rate must be above zero", element);
          list.push_back(number);
        }
      }
      return list;
    }
    case KeyType::kJson:
      PACELINE_RETURN_IF_ERROR(checked_inside(value, where));
      return value;
  }
  PACELINE_CHECK(false, "unknown key type");
}

Result<Json> checked_case(const Question& question, const Json& given, const Json& beside) {
  if (!given.is_object()) return wrong("is {} (a {}); it must be an object", brief(given), given.type_name());
  std::vector<std::string> names;
  for (const Key& key : question.keys) names.push_back(key.name);
  Json checked = Json::object();
  for (const auto& [name, value] : given.items()) {
    const Key* key = find_key(question, name);
    if (key == nullptr) {
      if (std::find(question.ignored.begin(), question.ignored.end(), name) != question.ignored.end()) continue;
      return wrong("unknown key '{}'{}; the keys are {}", name, suggestion(name, names), fmt::join(names, ", "))
          .because({"unknown", name});
    }
    auto found = checked_value(*key, value, fmt::format("key '{}'", name));
    if (!found.ok()) return found.status().because({"", name});
    checked[name] = std::move(found).value();
  }
  checked.update(beside);
  for (const Key& key : question.keys) {
    if (key.required && !checked.contains(key.name))
      return wrong_key(key.name, " is missing; it is {}", key.help).because({"missing", ""});
  }
  return checked;
}

Result<Cases> read_cases(const Question& question, const std::string& text, const std::string& source, const Json& beside) {
  PACELINE_ASSIGN_OR_RETURN(const Json document, parse_json(text, source, CaseIndex::kNamed));
  if (!document.is_object() && !document.is_array()) {
    return wrong("{}: found {} (a {}); it must be one JSON object or an array of them", source, brief(document),
                 document.type_name());
  }
  Cases result;
  result.is_array = document.is_array();
  const std::size_t count = result.is_array ? document.size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    auto checked = checked_case(question, result.is_array ? document[i] : document, beside);
    if (!checked.ok()) return at(fmt::format("{}: case {}", source, i), checked.status());
    result.cases.push_back(std::move(checked).value());
  }
  return result;
}

}  // namespace paceline::planner
