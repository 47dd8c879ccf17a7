#include "benchmarks/security.h"

#include <fmt/format.h>

#include "base/text.h"
#include "bench/transport/security_bench.h"
#include "paceline/command.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_stream(const std::string& name, const bench::Stream& stream) {
  fmt::print("{:<44} {:<28} {:>5.2f} s/GB CPU\n", name, rate_text(stream.bytes_per_second), stream.cpu_seconds_per_gb.median);
}

// A loop of a thread has a processor of its own here, so what it moves is all that it can.
void print_both_ways(const std::string& name, const bench::Stream& stream) {
  print_stream(name, stream);
  fmt::print("{:<44} {:>6.1f} Gb/s each way\n", "", stream.bytes_per_second.median * 8e-9);
}

void print(const bench::SecurityBenchReport& report, const bench::SecurityBenchOptions& options) {
  fmt::print("Loopback, one thread an end; median (least .. most) of {} turns; processor time of both ends\n\n", options.runs);
  for (const auto& [cipher, stream] : report.plain_tls) print_stream("plain sockets, " + cipher, stream);
  print_stream("transport, no key: CRC32C", report.clear);
  print_stream("transport, a key: TLS 1.3, AES-128-GCM", report.key);
  print_stream("transport, a key and data left clear", report.clear_data);
  fmt::print("with a key / without: {:.2f}; with data left clear / without: {:.2f}\n\n", report.key_of_clear,
             report.clear_data_of_clear);
  print_both_ways("both ways at once, no key", report.clear_both_ways);
  print_both_ways("both ways at once, a key", report.key_both_ways);
  fmt::print("\nconnecting: {} without a key, {} with one\n", milliseconds_text(report.clear_connect_seconds),
             milliseconds_text(report.key_connect_seconds));
  fmt::print("{} workers join: {} without a key, {} with one\n", options.workers, milliseconds_text(report.clear_join_seconds),
             milliseconds_text(report.key_join_seconds));
}

}  // namespace

int bench_security(const PartOptions& options) {
  const Json machine = surroundings();
  bench::SecurityBenchOptions bench_options;
  if (options.quick) bench_options = {.runs = 3, .streamed = Bytes{200'000'000}, .on_run = {}};
  const SystemClock clock;
  std::unique_ptr<ProgressBar> bar = make_bar("bench security", options, bench_options.runs, clock);
  bench_options.on_run = [&](int done) { bar->update(done); };
  const auto report = bench::run_security_bench(bench_options);
  bar.reset();
  if (!report.ok()) return report_error(report.status());
  if (options.json) {
    Json json = {{"machine", machine}, {"runs", bench_options.runs}, {"workers", bench_options.workers}};
    json.update(Json::parse(nlohmann::json(*report).dump()));
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  fmt::print("{}\n", surroundings_text(machine));
  print(*report, bench_options);
  return kDone;
}

}  // namespace paceline::cli
