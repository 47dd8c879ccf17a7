#include "report/json_fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "report/json_text.h"

namespace paceline::report {
namespace {

constexpr double kMostWhole = 9007199254740992.0;  // 2^53: larger ones are not exact

Status no(const char* type, const Json& found, const std::string& where) {
  return wrong("{} is {} (a {}); it must be {}", where, brief(found), found.type_name(), type);
}

Result<double> number_in(const Json& json, const std::string& where, double least, double most) {
  if (!json.is_number()) return no("a number", json, where);
  const auto value = json.get<double>();
  if (value >= least && value <= most && std::isfinite(value)) return value;
  return wrong("{} is {}; legal: {}", where, brief(json),
               std::isfinite(most) ? fmt::format("{} to {}", least, most) : fmt::format("{} and more", least));
}

Result<std::int64_t> count_in(const Json& json, const std::string& where, double least) {
  PACELINE_ASSIGN_OR_RETURN(const double value, number_in(json, where, least, kMostWhole));
  if (value != std::floor(value)) return wrong("{} is {}; it must be a whole number", where, brief(json));
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<JsonFields> JsonFields::of(const Json& object, std::string where, const std::vector<std::string>& legal) {
  if (!object.is_object()) return no("an object", object, where);
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(legal, key) != legal.end()) continue;
    return wrong("{} has an unknown key '{}'{}; the keys are {}", where, key, suggestion(key, legal), fmt::join(legal, ", "));
  }
  return JsonFields(object, std::move(where));
}

std::string JsonFields::where(const std::string& key) const { return fmt::format("{}: key '{}'", where_, key); }

Result<const Json*> JsonFields::value(const std::string& key) const {
  const auto found = object_->find(key);
  if (found == object_->end()) return wrong("{} is missing", where(key));
  return &*found;
}

Result<const Json*> JsonFields::array(const std::string& key) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
  if (!json->is_array()) return no("an array", *json, where(key));
  return json;
}

Result<std::string> JsonFields::text(const std::string& key) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
  if (!json->is_string()) return no("a text", *json, where(key));
  return json->get<std::string>();
}

Result<bool> JsonFields::truth(const std::string& key) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
  if (!json->is_boolean()) return no("true or false", *json, where(key));
  return json->get<bool>();
}

Result<double> JsonFields::number(const std::string& key, double least, double most) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
  return number_in(*json, where(key), least, most);
}

Result<std::int64_t> JsonFields::count(const std::string& key, std::int64_t least) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, value(key));
  return count_in(*json, where(key), static_cast<double>(least));
}

Result<std::vector<std::int64_t>> JsonFields::counts(const std::string& key, std::size_t size) const {
  PACELINE_ASSIGN_OR_RETURN(const Json* json, array(key));
  if (size != 0 && json->size() != size) return wrong("{} has {} numbers; it must have {}", where(key), json->size(), size);
  std::vector<std::int64_t> counts;
  for (const Json& element : *json) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t number, count_in(element, where(key), 0));
    counts.push_back(number);
  }
  return counts;
}

}  // namespace paceline::report
