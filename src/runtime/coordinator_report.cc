// Of Coordinator: the report of the whole job.
#include "report/report.h"
#include "runtime/coordinator.h"

namespace paceline::runtime {

std::optional<report::Json> Coordinator::final_report(wire::Stop& stop) const {
  if (static_cast<std::int32_t>(roster_.worker_reports().size()) < options_.workers) return std::nullopt;
  std::vector<report::WorkerReport> workers;
  std::vector<report::ServerReport> servers;
  for (const auto& [rank, text] : roster_.worker_reports()) {
    auto report = report::decode_worker_report(text);
    if (!report.ok())
      stop = wire::stop_for(report.status());
    else
      workers.push_back(std::move(*report));
  }
  for (const auto& [rank, text] : roster_.server_reports()) {
    if (auto report = report::decode_server_report(text); report.ok()) servers.push_back(*report);
  }
  if (!agreed_ || static_cast<std::int32_t>(workers.size()) < options_.workers) return std::nullopt;
  report::JobShape shape{.workers = options_.workers, .servers = options_.servers, .both = roster_.both()};
  for (const auto& [peer, roles] : roles_) {
    if (const auto server = roster_.rank_of(peer, wire::Role::kServer)) shape.addresses[*server] = endpoint_->address_of(peer);
  }
  auto report = job_report(*agreed_, shape, workers, servers);
  if (!report.ok()) {
    stop = wire::stop_for(report.status());
    return std::nullopt;
  }
  const session::EndpointCounters& counters = endpoint_->counters();
  (*report)["strangers"] = (*report)["strangers"].get<std::uint64_t>() + counters.strangers_refused + counters.hellos_refused;
  return std::move(*report);
}

}  // namespace paceline::runtime
