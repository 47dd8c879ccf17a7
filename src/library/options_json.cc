#include "library/options_json.h"

#include <cmath>

#include "job/option.h"

namespace paceline::library {
namespace {

using job::Option;
using job::OptionType;
using report::Json;

const char* section_of(const Option& option) {
  constexpr const char* kNames[] = {"what", "how", "files", "limits", "processes"};
  return kNames[static_cast<std::size_t>(option.section)];
}

const char* agreement_of(const Option& option) { return option.agree == job::Agree::kResume ? "resume" : "workers"; }

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Times are seconds, as everywhere in JSON.
Json value_of(const Option& option, const std::string& text) {
  if (option.absent == text) return nullptr;
  switch (option.type) {
    case OptionType::kFlag:
      return text == "1";
    case OptionType::kWhole:
      return std::stoll(text);
    case OptionType::kNumber:
    case OptionType::kTime:
      return std::stod(text);
    case OptionType::kText:
    case OptionType::kChoice:
      break;
  }
  return text;
}

Json property(const Option& option) {
  Json schema{{"description", option.sentence}};
  constexpr const char* kTypes[] = {"string", "string", "integer", "number", "string", "boolean"};
  schema["type"] = kTypes[static_cast<std::size_t>(option.type)];
  // A learning rate may be a number, speeds an array of them.
  if (option.type == OptionType::kText) schema["type"] = {"string", "number", "array"};
  if (!option.choices.empty()) schema["enum"] = option.choices;
  if (option.type == OptionType::kWhole || option.type == OptionType::kNumber) {
    schema["minimum"] = option.legal.from;
    if (std::isfinite(option.legal.to)) schema["maximum"] = option.legal.to;
    if (std::isfinite(option.legal.below)) schema["exclusiveMaximum"] = option.legal.below;
  }
  const std::string usual = typed_text({}, option);
  if (!usual.empty()) schema["default"] = option.type == OptionType::kTime ? Json(usual) : value_of(option, option.text({}));
  return schema;
}

}  // namespace

report::Json options_json() {
  Json all = Json::array();
  for (const Option& option : job::options()) {
    all.push_back({{"name", option.name},
                   {"type", to_string(option.type)},
                   {"default", value_of(option, option.text({}))},
                   {"legal", option.legal.words},
                   {"choices", option.choices.empty() ? Json(nullptr) : Json(option.choices)},
                   {"from", number_or_null(option.legal.from)},
                   {"to", number_or_null(option.legal.to)},
                   {"below", number_or_null(option.legal.below)},
                   {"agree", agreement_of(option)},
                   {"since", option.since},
                   {"section", section_of(option)},
                   {"help", option.sentence}});
  }
  return all;
}

report::Json options_schema() {
  Json properties = Json::object();
  for (const Option& option : job::options())
    if (option.section != job::Section::kNone) properties[option.name] = property(option);
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A job of Paceline, as --config gives it"},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

}  // namespace paceline::library
