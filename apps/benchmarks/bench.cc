// `paceline bench`: measures on this machine. Transport, server and decisions here, with the same code as the tests of bench/; the
// longer ones in files of their own.
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bench/decisions/decisions_bench.h"
#include "bench/server/server_bench.h"
#include "bench/transport/iperf3.h"
#include "bench/transport/transport_bench.h"
#include "benchmarks/collectives.h"
#include "benchmarks/figures.h"
#include "benchmarks/parts.h"
#include "benchmarks/planner.h"
#include "benchmarks/prediction.h"
#include "benchmarks/preemption.h"
#include "benchmarks/schedules.h"
#include "benchmarks/security.h"
#include "benchmarks/sync.h"
#include "lab/rights.h"
#include "paceline/command.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_figures(const char* name, const bench::Figures& figures) {
  fmt::print("{:<34} {:<28} {:>5.2f} s/GB CPU   {:>6.1f} us  ({:.1f} .. {:.1f})\n", name, rate_text(figures.bytes_per_second),
             figures.cpu_seconds_per_gb.median, figures.round_trip_seconds.median * 1e6, figures.round_trip_seconds.lowest * 1e6,
             figures.round_trip_seconds.highest * 1e6);
}

int bench_transport(const PartOptions& options) {
  const Json machine = surroundings();
  bench::TransportBenchOptions bench_options;
  if (options.quick) bench_options = {.runs = 3, .streamed = Bytes{200'000'000}, .round_trips = 2'000};
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar = make_bar("bench transport", options, bench_options.runs, clock);
  std::vector<double> iperf3;
  bench_options.on_run = [&](int done) -> Status {
    if (bench::iperf3_installed()) {
      PACELINE_ASSIGN_OR_RETURN(const double rate, bench::stream_iperf3(1));
      iperf3.push_back(rate);
    }
    bar->update(done);
    return {};
  };
  const auto report = bench::run_transport_bench(bench_options);
  bar.reset();
  if (!report.ok()) return report_error(report.status());
  const lab::Rights rights = lab::look_up_rights();
  const bool shaped_possible = rights.namespaces && !rights.ip.empty() && !rights.tc.empty();
  std::optional<bench::ShapedStreamReport> shaped;
  if (shaped_possible) {
    bench::ShapedStreamOptions shaped_options;
    if (options.quick) shaped_options = {.runs = 3, .length = std::chrono::milliseconds(400)};
    std::unique_ptr<ProgressBar> shaped_bar = make_bar("between shaped hosts", options, shaped_options.runs, clock);
    shaped_options.on_run = [&](int done) { shaped_bar->update(done); };
    const auto result = bench::run_shaped_stream_bench(shaped_options);
    shaped_bar.reset();
    if (!result.ok()) return report_error(result.status());
    shaped = *result;
  }
  const auto iperf3_spread = iperf3.empty() ? std::nullopt : std::optional(bench::spread(iperf3));
  if (options.json) {
    Json json = {{"machine", machine}, {"runs", bench_options.runs}};
    json.update(Json::parse(nlohmann::json(*report).dump()));
    json["shaped"] = shaped ? Json::parse(nlohmann::json(*shaped).dump()) : Json();
    json["iperf3_bytes_per_second"] = iperf3_spread ? Json(nlohmann::json(*iperf3_spread)) : Json();
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  fmt::print("{}\n", surroundings_text(machine));
  fmt::print("Loopback, chunks of 64 KiB in messages of 200 KB; median (least .. most) of {} turns\n\n", bench_options.runs);
  fmt::print("{:<34} {:<45} {}\n", "", "stream", "64-byte round trip");
  print_figures("plain sockets, no checksum", report->plain);
  print_figures("plain sockets, CRC32C on both ends", report->plain_checked);
  print_figures("tcp transport, CRC32C on both ends", report->tcp);
  print_figures("the same with a key: TLS 1.3", report->tls);
  if (iperf3_spread) fmt::print("{:<34} {}\n", "iperf3, no checksum", rate_text(*iperf3_spread));
  fmt::print("\ntcp transport / plain sockets with CRC32C: stream {:.2f} (1 = as fast), round trip {:.2f} (1 = as short)\n",
             report->stream_of_plain_checked, report->round_trip_of_plain_checked);
  fmt::print("TLS / in the clear: stream {:.2f}; connecting {} with TLS, {} in the clear\n", report->tls_stream_of_tcp,
             milliseconds_text(report->tls_connect_seconds), milliseconds_text(report->tcp_connect_seconds));
  if (!shaped) {
    fmt::print("\nBetween shaped hosts: not measured; this process {}\n", rights.reason);
    return kDone;
  }
  fmt::print("\nBetween two hosts with a link of {} (paceline lab); median (least .. most) of turns\n\n",
             to_text(BytesPerSecond{shaped->link_bytes_per_second}));
  fmt::print("{:<34} {:<28} {:>5.2f} s/GB CPU\n", "plain sockets, no checksum", rate_text(shaped->goodput),
             shaped->goodput_cpu_seconds_per_gb.median);
  fmt::print("{:<34} {:<28} {:>5.2f} s/GB CPU\n", "tcp transport, CRC32C on both ends", rate_text(shaped->tcp),
             shaped->tcp_cpu_seconds_per_gb.median);
  fmt::print("tcp transport / plain sockets: {:.3f} ({:.3f} .. {:.3f})\n", shaped->tcp_of_goodput.median,
             shaped->tcp_of_goodput.lowest, shaped->tcp_of_goodput.highest);
  return kDone;
}

int bench_server(const PartOptions& options) {
  const Json machine = surroundings();
  bench::ServerBenchOptions bench_options;
  if (options.quick) bench_options = {.runs = 3, .parameters = Bytes{16'000'000}};
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar = make_bar("bench server", options, bench_options.runs, clock);
  bench_options.on_run = [&](int done) { bar->update(done); };
  const auto report = bench::run_server_bench(bench_options);
  bar.reset();
  if (!report.ok()) return report_error(report.status());
  if (options.json) {
    Json json = {{"machine", machine},
                 {"runs", bench_options.runs},
                 {"workers", bench_options.workers},
                 {"parameter_bytes", bench_options.parameters.count},
                 {"unit_bytes", bench_options.unit.count}};
    json.update(Json::parse(nlohmann::json(*report).dump()));
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  fmt::print("{}\n", surroundings_text(machine));
  fmt::print(
      "{} workers, {} of parameters in units of {}, one core; bytes read and written per second of it; median (least .. most) of "
      "{} turns\n\n",
      bench_options.workers, to_text(bench_options.parameters), to_text(bench_options.unit), bench_options.runs);
  fmt::print("{:<34} {}\n", "memory copy", rate_text(report->copy));
  fmt::print("{:<34} {:<34} {:.2f} of the copy\n", "sum in rank order", rate_text(report->sum), report->sum_of_copy);
  fmt::print("{:<34} {:<34} {:.2f} of the copy\n", "sum, check and step of sgd", rate_text(report->update_sgd),
             report->update_sgd_of_copy);
  fmt::print("{:<34} {:<34} {:.2f} of the copy\n", "sum, check and step of momentum", rate_text(report->update_momentum),
             report->update_momentum_of_copy);
  return kDone;
}

int bench_decisions(const PartOptions& options) {
  const Json machine = surroundings();
  bench::DecisionsBenchOptions bench_options;
  if (options.quick) bench_options.runs = 3;
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar = make_bar("bench decisions", options, bench_options.runs, clock);
  bench_options.on_run = [&](int done) { bar->update(done); };
  const auto report = bench::run_decisions_bench(bench_options);
  bar.reset();
  if (!report.ok()) return report_error(report.status());
  if (options.json) {
    Json json = {{"machine", machine},
                 {"runs", bench_options.runs},
                 {"layers", bench_options.layers},
                 {"destinations", bench_options.destinations},
                 {"units", bench_options.units},
                 {"decisions", bench_options.decisions},
                 {"plans", bench_options.plans}};
    json["nanoseconds"] = Json::parse(nlohmann::json(*report).dump());
    json["plan_nanoseconds"] = Json::parse(nlohmann::json(report->plan).dump());
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  fmt::print("{}\n", surroundings_text(machine));
  fmt::print("{} layers, {} units waiting, {} destinations, one core; ns each, median (least .. most) of {} runs\n\n",
             bench_options.layers, bench_options.units, bench_options.destinations, bench_options.runs);
  const auto line = [](const char* name, const bench::Spread& ns) {
    fmt::print("{:<44} {:>7.0f}  ({:.0f} .. {:.0f})\n", name, ns.median, ns.lowest, ns.highest);
  };
  line("a unit joins the egress queue", report->ready);
  line("a chunk is chosen to leave, and acknowledged", report->leave);
  line("a gradient joins a server's queue", report->arrived);
  line("a gradient is chosen to be worked off", report->work);
  fmt::print("\nBatches of {} layers are planned, {} tables a run; ms each\n\n", bench_options.layers, bench_options.plans);
  const auto plan = [](const char* name, const bench::Spread& ns) {
    fmt::print("{:<44} {:>7.2f}  ({:.2f} .. {:.2f})\n", name, ns.median * 1e-6, ns.lowest * 1e-6, ns.highest * 1e-6);
  };
  plan("exact", report->plan.exact);
  plan("ibatch", report->plan.ibatch);
  return kDone;
}

int bench_preemption(const PartOptions& options) { return run_preemption({.quick = options.quick, .json = options.json}); }

void add_benchmark(CLI::App& bench, Chosen& chosen, const char* name, const char* purpose, int (*run)(const PartOptions&)) {
  CLI::App* command = bench.add_subcommand(name, purpose);
  const auto options = std::make_shared<PartOptions>();
  command->add_flag("--quick", options->quick, "Fewer and shorter runs: some seconds, larger spread");
  command->add_flag("--json", options->json, "One JSON document; rates in bytes/s, times in seconds");
  command->add_flag("--progress", options->progress, "Show progress even when standard error is no terminal");
  set_examples(*command, fmt::format("  paceline bench {0} --quick\n  paceline bench {0} --json", name));
  command->callback([options, run, &chosen] { chosen.run = [options, run] { return run(*options); }; });
}

}  // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine: what the parts cost against what it allows");
  bench->require_subcommand(1);
  add_benchmark(
      *bench, chosen, "transport",
      "The tcp transport against plain sockets (and iperf3 where it is installed), over the loopback and, where a lab is possible, "
      "between two hosts with a link of 1 Gb/s",
      &bench_transport);
  add_benchmark(*bench, chosen, "server", "A server's sums and steps against the machine's rate of copying memory, one core",
                &bench_server);
  add_benchmark(
      *bench, chosen, "decisions",
      "What it costs to choose the next chunk and the next gradient while a million wait, and to plan batches of 1000 layers",
      &bench_decisions);
  add_benchmark(
      *bench, chosen, "preemption",
      "How long an urgent slice takes to arrive behind a backlog, by window, between two hosts with links of 1 Gb/s and 100 Mb/s",
      &bench_preemption);
  add_benchmark(*bench, chosen, "security",
                "What encryption costs: processor time by cipher, the transport with a key and with data left clear, what one loop "
                "carries, handshakes, and 64 workers that join; over the loopback",
                &bench_security);
  add_planner_bench(*bench, chosen);
  add_bench_prediction(*bench, chosen);
  add_bench_schedules(*bench, chosen);
  add_bench_collectives(*bench, chosen);
  add_bench_sync(*bench, chosen);
  add_bench_figures(*bench, chosen);
  set_examples(*bench, "  paceline bench transport --quick\n  paceline bench server --json");
}

}  // namespace paceline::cli
