#include "library/questions.h"

#include <vector>

#include "base/text.h"
#include "library/options_json.h"
#include "report/json_text.h"

namespace paceline::library {
namespace {

using report::Json;

struct Question {
  const char* name;
  Result<Json> (*answer)(const Json& settings);
};

Result<Json> no_settings(const Json& settings, Json (*answer)()) {
  if (settings.empty()) return answer();
  return Status(ErrorKind::kBadRequest, fmt::format("this question has no settings, so not '{}'", settings.begin().key()),
                {"unknown", settings.begin().key()});
}

Json names();

constexpr Question kQuestions[] = {
    {"questions", [](const Json& settings) { return no_settings(settings, names); }},
    {"options", [](const Json& settings) { return no_settings(settings, options_json); }},
    {"schema", [](const Json& settings) { return no_settings(settings, options_schema); }},
    {"version", [](const Json& settings) { return no_settings(settings, [] {
                                             return Json{{"release", PACELINE_VERSION}};
                                           }); }},
};

Json names() {
  Json all = Json::array();
  for (const Question& question : kQuestions) all.push_back(question.name);
  return all;
}

}  // namespace

Result<std::string> ask(std::string_view question, std::string_view settings) {
  Json given = Json::object();
  if (!settings.empty()) {
    PACELINE_ASSIGN_OR_RETURN(given, report::parse_json(std::string(settings), "the settings", report::CaseIndex::kNone));
    if (!given.is_object()) return error(ErrorKind::kBadRequest, "the settings are no JSON object");
  }
  for (const Question& row : kQuestions) {
    if (question != row.name) continue;
    PACELINE_ASSIGN_OR_RETURN(const Json answer, row.answer(given));
    return answer.dump();
  }
  std::vector<std::string> all;
  for (const Question& row : kQuestions) all.emplace_back(row.name);
  return Status(ErrorKind::kBadRequest, fmt::format("there is no question '{}'{}", question, suggestion(question, all)),
                {"unknown", std::string(question.substr(0, 63))});
}

}  // namespace paceline::library
