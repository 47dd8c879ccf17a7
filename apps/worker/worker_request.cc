#include "worker/worker_request.h"

#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/error_line.h"
#include "base/job_key_file.h"

namespace paceline::worker {
namespace {

using report::Json;

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

}  // namespace

std::string encode(const WorkerRequest& request) {
  Json settings = Json::object();
  for (const auto& [name, value] : to_settings(request.settings)) settings[name] = value;
  return Json{{"settings", settings},
              {"data_root", request.data_root},
              {"workers", request.workers},
              {"reference", request.reference},
              {"coordinator", request.coordinator},
              {"rank", request.rank},
              {"seed", request.seed},
              {"label", request.label},
              {"role", request.role},
              {"bind", request.bind},
              {"prefetch", request.prefetch},
              {"loader_threads", request.loader_threads},
              {"job_key", request.job_key},
              {"alone", request.alone}}
      .dump();
}

Result<WorkerRequest> decode_worker_request(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    WorkerRequest request;
    wire::Settings pairs;
    for (const auto& [name, value] : json.at("settings").items()) pairs.emplace_back(name, value.get<std::string>());
    PACELINE_ASSIGN_OR_RETURN(const job::JobSpec settings, job::from_settings(pairs));
    PACELINE_ASSIGN_OR_RETURN(request.settings, validated(settings));
    request.data_root = json.at("data_root");
    request.workers = json.at("workers");
    request.reference = json.at("reference");
    request.coordinator = json.at("coordinator");
    request.rank = json.at("rank");
    request.seed = json.at("seed");
    request.label = json.at("label");
    request.role = json.at("role");
    request.bind = json.at("bind");
    request.prefetch = json.at("prefetch");
    request.loader_threads = json.at("loader_threads");
    request.job_key = json.at("job_key");
    request.alone = json.at("alone");
    return request;
  } catch (const nlohmann::json::exception& problem) {
    return error(ErrorKind::kBadRequest, "this program is started by 'paceline train', with another request: {}", problem.what());
  }
}

std::string argument_of(std::int32_t rank, const HandedText& handed) {
  return Json{{"rank", rank}, {"request", handed.descriptor()}}.dump();
}

Result<std::string> text_behind(const std::string& argument) {
  const Json json = Json::parse(argument, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("request") || !json["request"].is_number_integer())
    return error(ErrorKind::kBadRequest, "this program is started by 'paceline train', with another argument");
  return take_handed_text(json["request"].get<int>());
}

Result<std::optional<JobKey>> job_key(const WorkerRequest& request) {
  if (request.job_key.empty()) return std::optional<JobKey>();
  PACELINE_ASSIGN_OR_RETURN(JobKey key, read_job_key(request.job_key));
  return std::optional(std::move(key));
}

Result<runtime::MemberOptions> member_options(const WorkerRequest& request, wire::TensorTable table) {
  runtime::MemberOptions member;
  PACELINE_ASSIGN_OR_RETURN(member.coordinator, transport::parse_address(request.coordinator));
  member.wanted_rank = request.rank;
  member.world_workers = request.workers;
  if (request.role == "both") member.roles = member.roles | wire::Role::kServer;
  PACELINE_ASSIGN_OR_RETURN(member.listen, transport::own_place(request.bind, member.coordinator));
  member.silence_deadline = from_seconds(request.settings.limits.deadline);
  if (request.alone) member.join_deadline = member.silence_deadline;
  // A launcher's ranks may come long before the coordinator, which is rank 0's; it waits as long for them.
  member.coordinator_deadline = request.alone ? member.silence_deadline : from_seconds(request.settings.limits.stall_deadline);
  member.release = PACELINE_VERSION;
  member.seed = request.seed;
  member.table = std::move(table);
  member.settings = to_settings(request.settings);
  return member;
}

void print_reference_progress(const Json& progress) { std::cout << Json{{"progress", progress}}.dump() << std::endl; }

Status print_reference(const WorkerRequest& request, const RunReference& run) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  PACELINE_ASSIGN_OR_RETURN(const auto reports, run([] { return interrupted != 0; }));
  PACELINE_ASSIGN_OR_RETURN(
      const Json report,
      report::job_report(request.settings, {.workers = request.workers, .processes = report::JobShape::Processes::kOne}, reports,
                         {}));
  std::cout << Json{{"report", report}}.dump() << std::endl;
  return interrupted != 0 ? Status(ErrorKind::kCancelled, "interrupted") : Status();
}

int exit_code(const Status& status) {
  constexpr int kFailed = 1, kWrongRequest = 2, kInterrupted = 130;
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", error_line(status).c_str());
  if (status.kind() == ErrorKind::kBadRequest) return kWrongRequest;
  return status.kind() == ErrorKind::kCancelled ? kInterrupted : kFailed;
}

}  // namespace paceline::worker
