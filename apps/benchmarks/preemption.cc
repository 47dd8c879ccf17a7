#include "benchmarks/preemption.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bench/preemption/preemption_bench.h"
#include "lab/rights.h"
#include "paceline/command.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kSlice{200'000}, kBacklog{16'000'000};
constexpr double kTolerance = 1.2;

std::vector<scheduling::WindowRule> windows() {
  return {scheduling::WindowRule{},
          scheduling::fixed_window({131'072}),
          scheduling::fixed_window({400'000}),
          scheduling::fixed_window({1'000'000}),
          scheduling::fixed_window({4'000'000}),
          scheduling::fixed_window(scheduling::kUnbounded)};
}

std::string name_of(const scheduling::WindowRule& rule) {
  if (rule.kind == scheduling::WindowRule::Kind::kFollows) return scheduling::to_text(rule);
  return rule.size == scheduling::kUnbounded ? "none" : to_text(rule.size);
}

// On a link of that rate.
Result<Json> measure(BytesPerSecond rate, int runs) {
  PACELINE_ASSIGN_OR_RETURN(const auto lab, lab::Lab::create({.shape = {.rates = {rate, rate}}}));
  PACELINE_ASSIGN_OR_RETURN(const BytesPerSecond goodput, lab->goodput(0, 1));
  bench::PreemptionBenchOptions options{.lab = lab.get(), .backlog = kBacklog, .slice = kSlice, .windows = windows(), .runs = runs};
  PACELINE_ASSIGN_OR_RETURN(const bench::PreemptionBenchReport report, bench::run_preemption_bench(options));
  const double own = static_cast<double>(kSlice.count) / goodput.value;
  const double limit = kTolerance * (own + own);
  Json contestants = Json::array();
  for (std::size_t i = 0; i < options.windows.size(); ++i) {
    contestants.push_back({{"window", name_of(options.windows[i])},
                           {"window_bytes", report.window_bytes[i]},
                           {"urgent_seconds", Json::parse(nlohmann::json(report.urgent_seconds[i]).dump())},
                           {"overtaken_by", report.overtaken_by[i]},
                           {"within_limit", report.urgent_seconds[i].median <= limit}});
  }
  return Json{{"link_bytes_per_second", rate.value},
              {"goodput_bytes_per_second", goodput.value},
              {"own_seconds", own},
              {"limit_seconds", limit},
              {"windows", contestants}};
}

void print(const Json& link) {
  const auto milliseconds = [](const Json& seconds) { return fmt::format("{:.1f}", 1e3 * seconds.get<double>()); };
  fmt::print("link of {}: goodput {}, own time of the slice {} ms, limit (own time, one slice, 20 %) {} ms\n",
             to_text(BytesPerSecond{link["link_bytes_per_second"].get<double>()}),
             to_text(BytesPerSecond{link["goodput_bytes_per_second"].get<double>()}), milliseconds(link["own_seconds"]),
             milliseconds(link["limit_seconds"]));
  for (const Json& one : link["windows"]) {
    const Json& seconds = one["urgent_seconds"];
    fmt::print("  window {:<10} {:>9} ms  ({} .. {})  {:>4.0f} slices before it  {}\n", one["window"].get<std::string>(),
               milliseconds(seconds["median"]), milliseconds(seconds["lowest"]), milliseconds(seconds["highest"]),
               one["overtaken_by"].get<double>(), one["within_limit"].get<bool>() ? "within the limit" : "");
  }
}

}  // namespace

int run_preemption(const PreemptionRequest& request) {
  if (const Status rights = lab::acquire_rights(); !rights.ok()) return report_error(rights);
  Json links = Json::array();
  for (const double rate : {125e6, 12.5e6}) {
    const auto link = measure({rate}, request.quick ? 3 : 9);
    if (!link.ok()) return report_error(link.status());
    links.push_back(*link);
  }
  if (request.json) {
    fmt::print("{}\n", Json{{"slice_bytes", kSlice.count}, {"backlog_bytes", kBacklog.count}, {"links", links}}.dump(2));
    return kDone;
  }
  fmt::print("An urgent slice of {} behind a backlog of {}, from ready to arrived; median (least .. most)\n\n", to_text(kSlice),
             to_text(kBacklog));
  for (const Json& link : links) print(link);
  return kDone;
}

}  // namespace paceline::cli
