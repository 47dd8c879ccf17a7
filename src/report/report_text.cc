// The report for people.
#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "report/report.h"

namespace paceline::report {
namespace {

std::string duration(const Json& seconds) { return to_text(from_seconds(seconds.get<double>())); }

// "1 server", "2 servers"

std::string trained_text(const Json& report) {
  const std::string dataset = report["dataset"];
  std::string what = report["model"];
  if (dataset == "(own)") what = "a program's own model";                 // which has no name
  if (dataset != "(own)" && dataset != "none") what += " on " + dataset;  // a replay has none
  const int servers = report["servers"];
  std::string by = servers == 0 ? "no server" : counted(servers, "server");
  if (report["schedule"] == "reference") by += " (reference)";
  if (servers > 0 && report["role"] == "both") by += ", each process both";
  return fmt::format("{}, {}, {}", what, counted(report["workers"].get<int>(), "worker"), by);
}

// A program of the user's need not say how many samples it has.
std::string speed_text(const Json& report) {
  const std::string iterations = counted(report["iterations"].get<std::int64_t>(), "iteration");
  const std::int64_t samples = report["samples"];
  if (samples == 0) return fmt::format("{} in {}", iterations, duration(report["seconds"]));
  return fmt::format("{:.0f} samples/s: {} in {}, {}", report["samples_per_second"].get<double>(), counted(samples, "sample"),
                     duration(report["seconds"]), iterations);
}

// Of waiting for others, staleness and predicted barriers, for people.
std::string sync_text(const Json& detail) {
  const Json& staleness = detail["staleness"];
  std::string text = fmt::format("staleness      {:.2f} iterations in the mean, {} at most\n", staleness["mean"].get<double>(),
                                 staleness["largest"].get<std::int64_t>());
  if (const Json& supersteps = detail["supersteps"]; !supersteps.is_null()) {
    std::string mean;
    for (const Json& one : supersteps["mean_iterations"])
      mean += fmt::format("{}{:.1f}", mean.empty() ? "" : ", ", one.get<double>());
    text += fmt::format("supersteps     {}, {} of them uneven; iterations by worker in the mean: {}\n",
                        supersteps["count"].get<std::int64_t>(), supersteps["uneven"].get<std::int64_t>(), mean);
  }
  if (const Json& prediction = detail["prediction"]; !prediction.is_null()) {
    text += fmt::format("barriers       workers came {} off their predicted time in the mean, of supersteps of {}\n",
                        to_text(from_seconds(prediction["mean_absolute_error"])), to_text(from_seconds(prediction["mean_length"])));
  }
  return text;
}

std::string link_text(const Json& link) {
  const std::string window = fmt::format("window {} ({})", to_text(Bytes{link["window"]}), link["rule"].get<std::string>());
  if (link["bandwidth"].is_null()) return window + "; no link was busy for long enough to measure its rate";
  return fmt::format("{}; {} and a round trip of {}, measured by {} of {} processes", window,
                     to_text(BytesPerSecond{link["bandwidth"].get<double>()}),
                     to_text(from_seconds(link["round_trip"].is_null() ? 0 : link["round_trip"].get<double>())),
                     link["measured"].get<int>(), link["processes"].get<int>());
}

std::string ordering_text(const Json& ordering, int servers) {
  const auto count = [&](const char* key) { return ordering[key].get<std::int64_t>(); };
  const std::string text = fmt::format("{}: urgent chunks overtook {} at workers'", ordering["places"].get<std::string>(),
                                       counted(count("worker_egress"), "time"));
  if (servers == 0) return text + " egress";
  return text + fmt::format(" and {} at servers' egress, urgent gradients {} at servers", count("server_egress"),
                            counted(count("server_ingress"), "time"));
}

std::string timeline_text(const Json& trace) {
  const auto dropped = trace["dropped"].get<std::uint64_t>();
  return fmt::format("{}: {} events of {} processes{}, clocks agree within {}", trace["file"].get<std::string>(),
                     trace["events"].get<std::uint64_t>(), trace["processes"].size(),
                     dropped == 0 ? "" : fmt::format(" ({} older ones were dropped)", dropped),
                     to_text(from_seconds(trace["clock_error_seconds"].get<double>())));
}

// For which layers training waited longest.
std::string gates_text(const Json& gates) {
  std::string text;
  for (const Json& gate : gates)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gate["layer"].get<std::string>(), duration(gate["mean_seconds"]));
  return text + " in the mean";
}

std::string phases_text(const Json& report) {
  double total = 0;
  for (const auto& [name, value] : report["phases"].items()) total += value.get<double>();
  std::string text = "\nwhere an iteration goes (mean over workers; communication counts only where nothing hid it)\n";
  for (const auto& [name, value] : report["phases"].items()) {
    const double share = total > 0 ? value.get<double>() / total : 0;
    text += fmt::format("  {:<11} {:>9}  {:>5.1f} %  {}\n", name, duration(value), 100 * share,
                        std::string(static_cast<std::size_t>(std::lround(share * 40)), '#'));
  }
  text += fmt::format("  hidden behind computing: {} of pushing, {} of pulling\n\n", duration(report["overlapped"]["push"]),
                      duration(report["overlapped"]["pull"]));
  return text;
}

// Who waits the most, and of several who waits the least: for that one the others wait, if for any.
std::string waiting_text(const Json& workers) {
  const auto share = [](const Json& worker) { return worker["waiting_share"].get<double>(); };
  const auto [least, most] =
      std::ranges::minmax_element(workers, [&](const Json& a, const Json& b) { return share(a) < share(b); });
  if (workers.size() == 1) return fmt::format("{:.1f} % of the time", 100 * share(*most));
  return fmt::format("worker {} the most, {:.1f} % of its time; worker {} the least, {:.1f} %", (*most)["rank"].get<int>(),
                     100 * share(*most), (*least)["rank"].get<int>(), 100 * share(*least));
}

std::string workers_text(const Json& workers) {
  std::string text = "worker  iterations  computing  waiting for others  for parameters  waiting share\n";
  for (const Json& worker : workers) {
    text +=
        fmt::format("{:>6}  {:>10}  {:>9}  {:>18}  {:>14}  {:>11.1f} %\n", worker["rank"].get<int>(),
                    worker["iterations"].get<std::int64_t>(), duration(worker["computing"]), duration(worker["waiting_barrier"]),
                    duration(worker["waiting_parameters"]), 100 * worker["waiting_share"].get<double>());
  }
  return text;
}

// What was chosen and why, and what came of it on the links.
std::string details_text(const Json& report) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  for (const auto& [key, name] :
       {std::pair("tuned", "tuned"), std::pair("collective", "operations"), std::pair("batching", "batches")})
    if (!report[key].is_null()) line(name, report[key]["why"].get<std::string>());
  if (!report["link"].is_null()) {
    line("link", link_text(report["link"]));
    line("ordering", ordering_text(report["ordering"], report["servers"].get<int>()));
  }
  return text;
}

}  // namespace

std::string report_text(const Json& report, Detail detail) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  const auto number = [](const Json& value, const char* format) {
    return value.is_null() ? "-" : fmt::format(fmt::runtime(format), value.get<double>());
  };
  line("trained", trained_text(report));
  const auto schedule = report["schedule"].get<std::string>();
  line("how",
       fmt::format("{}, {}, {}, seed {}",
                   schedule == "reference"  ? schedule
                   : report["servers"] == 0 ? "collective " + schedule
                                            : schedule + " schedule",
                   report["sync"].get<std::string>(), report["optimizer"].get<std::string>(), report["seed"].get<std::int64_t>()));
  if (!report["accuracy"].is_null())
    line("accuracy", fmt::format("{:.2f} % of the test set", 100 * report["accuracy"].get<double>()));
  if (!report["loss_first"].is_null() || !report["loss_last"].is_null())
    line("loss", fmt::format("{} at the first iteration, {} at the last", number(report["loss_first"], "{:.4f}"),
                             number(report["loss_last"], "{:.4f}")));
  line("speed", speed_text(report));
  if (schedule != "reference") line("waiting", waiting_text(report["per_worker"]));
  const std::string wire = report["wire"];
  line("moved", fmt::format("{} pushed, {} pulled by all workers{}", to_text(Bytes{report["bytes_pushed"]}),
                            to_text(Bytes{report["bytes_pulled"]}), wire == "float32" ? "" : ", as " + wire));
  const Json& iteration = report["iteration_seconds"];
  line("iteration",
       fmt::format("{} median, {} to {}", duration(iteration["median"]), duration(iteration["min"]), duration(iteration["max"])));
  text += phases_text(report) + workers_text(report["per_worker"]);
  const Json& server = report["slowest_server"];
  const Json way = report["link"].is_null() ? Json(nullptr) : report["link"]["slowest"];
  if (!server.is_null() || !way.is_null()) text += "\n";
  if (!server.is_null()) line("slowest", server.get<std::string>());
  if (!way.is_null()) line("slowest", way.get<std::string>());
  if (!report["sync_detail"].is_null()) text += "\n" + sync_text(report["sync_detail"]);
  text += fmt::format("\nparameters     {}\n", report["parameters_hash"].get<std::string>());
  if (!report["checkpoint"].is_null()) line("checkpoint", report["checkpoint"].get<std::string>());
  if (const Json& trace = report["trace"]; !trace.is_null()) {
    line("timeline", timeline_text(trace));
    if (!trace["gates"].empty()) line("longest gates", gates_text(trace["gates"]));
  }
  if (!report["strangers"].is_null() && report["strangers"] != 0)
    line("strangers", fmt::format("{} turned away", counted(report["strangers"].get<std::int64_t>(), "connection")));
  return detail == Detail::kAll ? text + details_text(report) : text;
}

}  // namespace paceline::report
