#include "paceline/train/job_process.h"

#include <algorithm>

#include "paceline/environment.h"
#include "paceline/machine.h"
#include "paceline/train/trainer_program.h"
#include "paceline/train/worker_program.h"

namespace paceline::cli {
namespace {

using report::Json;

Result<std::unique_ptr<Child>> start_server(const JobProcess& process, const HandedKey& key, const std::string& bind) {
  std::vector<std::string> words = {own_path(), "train", "--join", process.coordinator, "--role", "server"};
  const auto option = [&](const char* name, const std::string& value) { words.insert(words.end(), {name, value}); };
  option("--rank", std::to_string(process.server->rank));
  option("--bind", bind);
  option("--deadline", fmt::format("{}s", process.server->deadline));
  const auto security = key.options();
  words.insert(words.end(), security.begin(), security.end());
  return Child::start(process.label, words, process.environment, key.kept());
}

Result<std::unique_ptr<Child>> start_worker(const JobProcess& process, const HandedKey& key, const std::string& bind) {
  const worker::WorkerRequest request = listening(*process.worker, key, bind);
  PACELINE_ASSIGN_OR_RETURN(const HandedText handed, HandedText::make(encode(request)));
  std::vector<int> kept = key.kept();
  kept.push_back(handed.descriptor());
  return Child::start(process.label, worker_command(request, handed), process.environment, kept);
}

Result<std::unique_ptr<Child>> start_program(const JobProcess& process, const HandedKey& key) {
  const OwnProgram& program = *process.program;
  const bool shares = program.on_machine > 1;
  std::vector<std::string> environment = variables_for_programs(shares ? std::max(1, usable_cores() / program.on_machine) : 0);
  environment.insert(environment.end(), process.environment.begin(), process.environment.end());
  environment.push_back("PACELINE_COORDINATOR=" + process.coordinator);
  environment.push_back(fmt::format("PACELINE_RANK={}", program.rank));
  environment.push_back(fmt::format("PACELINE_WORKERS={}", program.workers));
  environment.push_back(fmt::format("PACELINE_SERVERS={}", program.servers));
  environment.push_back("PACELINE_JOB_KEY_FILE=" + key.source());
  PACELINE_ASSIGN_OR_RETURN(auto child, Child::start(process.label, program.words, environment, key.kept()));
  child->take_group_along();
  return child;
}

}  // namespace

Json to_json(const JobProcess& process) {
  Json json{{"label", process.label}, {"coordinator", process.coordinator}, {"environment", process.environment}};
  if (process.server) json["server"] = {{"rank", process.server->rank}, {"deadline", process.server->deadline}};
  if (process.worker) json["worker"] = encode(*process.worker);
  if (const auto& own = process.program) {
    json["program"] = {{"words", own->words},
                       {"rank", own->rank},
                       {"workers", own->workers},
                       {"servers", own->servers},
                       {"on_machine", own->on_machine}};
  }
  return json;
}

Result<JobProcess> job_process(const Json& json) {
  try {
    JobProcess process{.label = json.at("label"),
                       .coordinator = json.at("coordinator"),
                       .environment = json.at("environment"),
                       .server = {},
                       .worker = {},
                       .program = {}};
    if (json.contains("server")) process.server = {.rank = json["server"].at("rank"), .deadline = json["server"].at("deadline")};
    if (json.contains("worker")) {
      PACELINE_ASSIGN_OR_RETURN(process.worker, worker::decode_worker_request(json["worker"]));
    }
    if (json.contains("program")) {
      const Json& own = json["program"];
      process.program = {.words = own.at("words"),
                         .rank = own.at("rank"),
                         .workers = own.at("workers"),
                         .servers = own.at("servers"),
                         .on_machine = own.at("on_machine")};
    }
    if (process.server || process.worker || process.program) return process;
    return error(ErrorKind::kBadRequest, "{} is neither server, worker nor program", process.label);
  } catch (const nlohmann::json::exception& problem) {
    return error(ErrorKind::kBadRequest, "this is the request of another release: {}", problem.what());
  }
}

Result<std::unique_ptr<Child>> start(const JobProcess& process, const HandedKey& key, const std::string& bind) {
  if (process.server) return start_server(process, key, bind);
  return process.worker ? start_worker(process, key, bind) : start_program(process, key);
}

}  // namespace paceline::cli
