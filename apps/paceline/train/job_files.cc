#include "paceline/train/job_files.h"

#include "base/log.h"
#include "base/text.h"
#include "base/wrong.h"
#include "model/convolution_algorithm.h"
#include "paceline/option_files.h"
#include "paceline/train/data_check.h"
#include "report/json_text.h"

namespace paceline::cli {
namespace {

using report::brief;
using report::CaseIndex;
using report::Json;
using report::parse_json;

// The file's one JSON object. `option`: what named the file.
Result<Json> object_in(const char* option, const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option(option, path));
  auto json = parse_json(text, fmt::format("{} {}", option, path), CaseIndex::kNone);
  if (json.ok() && !json->is_object())
    return wrong("{} {}: {} (a {}) where an object is expected", option, path, brief(*json), json->type_name());
  return json;
}

// Key "convolutions": {LAYER: ALGORITHM}. `where` begins each message.
Result<model::ConvolutionChoice> choice_in(const Json& json, const std::string& where) {
  if (!json.is_object())
    return wrong("{}: key 'convolutions' is {} (a {}); it must be an object of layers", where, brief(json), json.type_name());
  model::ConvolutionChoice choice;
  for (const auto& [layer, value] : json.items()) {
    if (!value.is_string())
      return wrong("{}: key 'convolutions', layer '{}': {} (a {}); it must be the name of an algorithm", where, layer, brief(value),
                   value.type_name());
    const auto algorithm = model::parse_algorithm(value.get<std::string>());
    if (!algorithm.ok()) return wrong("{}: key 'convolutions', layer '{}': {}", where, layer, algorithm.status().message());
    choice[layer] = *algorithm;
  }
  return choice;
}

Status check_choice(const model::ConvolutionChoice& choice, const std::string& model, const std::string& where) {
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription description, model::describe(model));
  if (const Status status = check_convolutions(choice, description); !status.ok())
    return wrong("{}: key 'convolutions', {}", where, status.message());
  return {};
}

Result<std::int64_t> count_in(const Json& value, const std::string& where) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1)
    return wrong("{} is {} (a {}); it must be a whole number from 1", where, brief(value), value.type_name());
  return value.get<std::int64_t>();
}

}  // namespace

Result<model::ConvolutionChoice> read_convolutions(const std::string& path, const std::string& model) {
  const std::string where = "--convolutions " + path;
  PACELINE_ASSIGN_OR_RETURN(const Json json, object_in("--convolutions", path));
  for (const auto& [key, value] : json.items()) {
    if (key != "model" && key != "convolutions")
      return wrong("{} has an unknown key '{}'{}; the keys are model, convolutions", where, key,
                   suggestion(key, std::vector<std::string>{"model", "convolutions"}));
  }
  if (!json.contains("convolutions")) return wrong("{} lacks key 'convolutions', an object of layers and algorithms", where);
  if (json.contains("model") && json["model"] != model)
    return wrong("{}: key 'model' is {}, but --model is '{}'", where, brief(json["model"]), model);
  PACELINE_ASSIGN_OR_RETURN(model::ConvolutionChoice choice, choice_in(json["convolutions"], where));
  PACELINE_RETURN_IF_ERROR(check_choice(choice, model, where));
  return choice;
}

Status apply_plan(const std::string& path, const std::function<bool(const std::string&)>& given, TrainRequest& request) {
  const std::string where = "--plan " + path;
  PACELINE_ASSIGN_OR_RETURN(const Json json, object_in("--plan", path));
  if (json.contains("feasible") && json["feasible"] == false)
    return wrong("{}: this plan found no answer: {}", where,
                 json.contains("reason") && json["reason"].is_string() ? json["reason"].get<std::string>() : "no reason is given");
  if (!json.contains("train") || !json["train"].is_object())
    return wrong("{} lacks the object 'train'; it must be what 'paceline plan job --output FILE' writes", where);
  const Json& train = json["train"];
  std::optional<model::ConvolutionChoice> convolutions;
  for (const auto& [key, value] : train.items()) {
    const std::string place = fmt::format("{}: key 'train.{}'", where, key);
    if (key == "convolutions") {
      PACELINE_ASSIGN_OR_RETURN(convolutions, choice_in(value, where));
    } else if (key == "model") {
      if (!value.is_string()) return wrong("{} is {} (a {}); it must be a name", place, brief(value), value.type_name());
      if (given("--model") && request.settings.task.model != value.get<std::string>())
        return wrong("{} is {}, but --model is '{}'; plan for that model", place, brief(value), request.settings.task.model);
      request.settings.task.model = value;
    } else if (key == "dataset") {
      if (!value.is_string()) return wrong("{} is {} (a {}); it must be a name", place, brief(value), value.type_name());
      if (const Status status = check_data_set_name(value); !status.ok()) return wrong("{}: {}", place, status.message());
      if (!given("--dataset")) request.settings.task.dataset = value;
    } else if (key == "mini-batch" || key == "workers" || key == "servers" || key == "prefetch" || key == "loader-threads") {
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, count_in(value, place));
      if (given("--" + key)) continue;
      if (count > 1'000'000'000) return wrong("{} is {}; legal: 1 to 1000000000", place, count);
      if (key == "prefetch") request.prefetch = static_cast<std::int32_t>(count);
      if (key == "loader-threads") request.loader_threads = static_cast<std::int32_t>(count);
      if (key == "mini-batch") request.settings.task.mini_batch = count;
      if (key == "workers") {
        request.workers = static_cast<std::int32_t>(count);
        request.workers_given = true;  // neither hosts nor a launcher say it better
      }
      if (key == "servers" && (request.role == "both" || !request.settings.has_servers())) {
        log::warn("{}: its {} servers have no place in this job and are left out", where, count);
      } else if (key == "servers") {
        request.servers = static_cast<std::int32_t>(count);
        request.servers_given = true;
      }
    } else {
      return wrong(
          "{} is unknown; the keys are model, dataset, mini-batch, workers, servers, prefetch, loader-threads, convolutions",
          place);
    }
  }
  if (!convolutions || given("--convolutions")) return {};
  PACELINE_RETURN_IF_ERROR(check_choice(*convolutions, request.settings.task.model, where));
  request.settings.task.convolutions = *convolutions;
  return {};
}

}  // namespace paceline::cli
