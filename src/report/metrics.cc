// What the processes of a job tell of their part: each figure is one row, read in both directions.
#include <cmath>
#include <span>

#include "report/json_text.h"
#include "report/report.h"

namespace paceline::report {
namespace {

template <typename Report>
struct Row {
  const char* name;
  Json (*tell)(const Report&);
  Status (*hear)(const Json&, Report&);  // throws what the accessors of JSON throw
};

template <typename Report>
Json told(std::span<const Row<Report>> rows, const Report& report) {
  Json json;
  for (const Row<Report>& row : rows) json[row.name] = row.tell(report);
  return json;
}

template <typename Report>
Status hear(std::span<const Row<Report>> rows, const Json& json, Report& report) {
  for (const Row<Report>& row : rows) PACELINE_RETURN_IF_ERROR(row.hear(json.at(row.name), report));
  return {};
}

// How values travel; numbers and words as they are.
template <typename T>
Json told(const T& value) {
  return value;
}

template <typename T>
Status hear(const Json& json, T& value) {
  value = json.get<T>();
  return {};
}

// One that is not finite is null.
Status hear(const Json& json, double& value) {
  value = json.is_null() ? std::nan("") : json.get<double>();
  return {};
}

Json told(const PhaseSeconds& phases) { return phases.seconds; }

Status hear(const Json& json, PhaseSeconds& phases) { return hear(json, phases.seconds); }

Json told(const IterationTimes& times) { return times.to_json(); }

Status hear(const Json& json, IterationTimes& times) {
  times = IterationTimes::from_json(json);
  return {};
}

Json told(const std::vector<WorkerReport::Evaluation>& evaluations) {
  Json all = Json::array();
  for (const WorkerReport::Evaluation& one : evaluations) all.push_back({one.iteration, one.seconds, one.accuracy});
  return all;
}

Status hear(const Json& json, std::vector<WorkerReport::Evaluation>& evaluations) {
  for (const Json& one : json.get<std::vector<Json>>()) evaluations.push_back({one.at(0), one.at(1), one.at(2)});
  return {};
}

// What only the report's readers look into travels as text.
Json told(const Json& detail) { return detail.is_null() ? std::string() : detail.dump(); }

Status hear(const Json& json, Json& detail) {
  const std::string text = json;
  if (text.empty()) return {};
  PACELINE_ASSIGN_OR_RETURN(detail, parse_foreign(text, "a part of a report"));
  return {};
}

Json told(const LinkReport& link);
Status hear(const Json& json, LinkReport& link);

template <typename Member>
struct Of;
template <typename R, typename T>
struct Of<T R::*> {
  using Report = R;
};

template <auto kMember, typename Report = typename Of<decltype(kMember)>::Report>
constexpr Row<Report> row(const char* name) {
  return {name, [](const Report& report) { return told(report.*kMember); },
          [](const Json& json, Report& report) { return hear(json, report.*kMember); }};
}

constexpr Row<LinkReport> kLink[] = {
    row<&LinkReport::window>("window"),
    row<&LinkReport::bandwidth>("bandwidth"),
    row<&LinkReport::round_trip>("round_trip"),
    row<&LinkReport::overtakes>("overtakes"),
    row<&LinkReport::reply_overtakes>("reply_overtakes"),
    row<&LinkReport::turns>("turns"),
    row<&LinkReport::window_full>("window_full"),
    row<&LinkReport::strangers>("strangers"),
    row<&LinkReport::slowest>("slowest"),
    row<&LinkReport::slowest_bandwidth>("slowest_bandwidth"),
    row<&LinkReport::fastest_bandwidth>("fastest_bandwidth"),
};

constexpr Row<WorkerReport> kWorker[] = {
    row<&WorkerReport::rank>("rank"),
    row<&WorkerReport::iterations>("iterations"),
    row<&WorkerReport::samples>("samples"),
    row<&WorkerReport::phases>("phases"),
    row<&WorkerReport::overlapped_push>("overlapped_push"),
    row<&WorkerReport::overlapped_pull>("overlapped_pull"),
    row<&WorkerReport::bytes_pushed>("bytes_pushed"),
    row<&WorkerReport::bytes_pulled>("bytes_pulled"),
    row<&WorkerReport::loss_first>("loss_first"),
    row<&WorkerReport::loss_last>("loss_last"),
    row<&WorkerReport::accuracy>("accuracy"),
    row<&WorkerReport::parameters_hash>("parameters_hash"),
    row<&WorkerReport::iteration_seconds>("iteration_seconds"),
    row<&WorkerReport::peak_bytes>("peak_bytes"),
    row<&WorkerReport::evaluations>("evaluations"),
    row<&WorkerReport::batching>("batching"),
    row<&WorkerReport::link>("link"),
};

constexpr Row<ServerReport> kServer[] = {
    row<&ServerReport::rank>("rank"),
    row<&ServerReport::peak_bytes>("peak_bytes"),
    row<&ServerReport::gradient_bytes_high>("gradient_bytes_high"),
    row<&ServerReport::updates>("updates"),
    row<&ServerReport::reorderings>("reorderings"),
    row<&ServerReport::link>("link"),
    row<&ServerReport::values_wait>("values_wait"),
    row<&ServerReport::shares_process>("shares_process"),
    row<&ServerReport::pace>("pace"),
};

Json told(const LinkReport& link) { return told<LinkReport>(kLink, link); }

Status hear(const Json& json, LinkReport& link) { return hear<LinkReport>(kLink, json, link); }

template <typename Report>
Result<Report> decoded(std::span<const Row<Report>> rows, const std::string& text, const char* whose) {
  try {
    PACELINE_ASSIGN_OR_RETURN(const Json json, parse_foreign(text, whose));
    Report report;
    PACELINE_RETURN_IF_ERROR(hear(rows, json, report));
    return report;
  } catch (const nlohmann::json::exception& problem) {
    return error(ErrorKind::kCorrupt, "{} is malformed: {}", whose, problem.what());
  }
}

}  // namespace

std::string encode(const WorkerReport& report) { return told<WorkerReport>(kWorker, report).dump(); }

std::string encode(const ServerReport& report) { return told<ServerReport>(kServer, report).dump(); }

Result<WorkerReport> decode_worker_report(const std::string& text) {
  return decoded<WorkerReport>(kWorker, text, "a worker's report");
}

Result<ServerReport> decode_server_report(const std::string& text) {
  return decoded<ServerReport>(kServer, text, "a server's report");
}

}  // namespace paceline::report
