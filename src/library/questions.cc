#include "library/questions.h"

#include <vector>

#include "base/text.h"
#include "library/options_json.h"
#include "planner/questions/ask.h"
#include "report/error_pages_json.h"
#include "report/json_text.h"

namespace paceline::library {
namespace {

using report::Json;

constexpr std::string_view kPlan = "plan ";  // before the name of a question of `paceline plan`

Json names();

struct Row {  // a question without settings
  const char* name;
  Json (*answer)();
};

constexpr Row kRows[] = {
    {"questions", names},
    {"options", options_json},
    {"schema", options_schema},
    {"errors", report::error_pages_json},
    {"version",
     [] {
       return Json{{"release", PACELINE_VERSION}};
     }},
    {"plan", planner::described_questions},
};

Json names() {
  Json all = Json::array();
  for (const Row& row : kRows) all.push_back(row.name);
  for (const planner::Question& question : planner::questions()) all.push_back(std::string(kPlan) + question.name);
  return all;
}

Result<Json> answer_row(const Row& row, const Json& settings) {
  if (!settings.is_object()) return error(ErrorKind::kBadRequest, "the settings are no JSON object");
  if (settings.empty()) return row.answer();
  const std::string& first = settings.begin().key();
  return Status(ErrorKind::kBadRequest, fmt::format("this question has no settings, so not '{}'", first), {"unknown", first});
}

Result<Json> answer_to(std::string_view question, const Json& settings) {
  if (question.starts_with(kPlan)) {
    const planner::Question* planned = planner::find_question(question.substr(kPlan.size()));
    if (planned != nullptr) return planner::ask(*planned, settings);
  }
  for (const Row& row : kRows) {
    if (question == row.name) return answer_row(row, settings);
  }
  return Status(ErrorKind::kBadRequest,
                fmt::format("there is no question '{}'{}", question, suggestion(question, names().get<std::vector<std::string>>())),
                {"unknown", std::string(question.substr(0, 63))});
}

}  // namespace

Result<std::string> ask(std::string_view question, std::string_view settings) {
  Json given = Json::object();
  if (!settings.empty()) {
    PACELINE_ASSIGN_OR_RETURN(given, report::parse_json(std::string(settings), "the settings", report::CaseIndex::kNone));
  }
  PACELINE_ASSIGN_OR_RETURN(const Json answer, answer_to(question, given));
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace paceline::library
