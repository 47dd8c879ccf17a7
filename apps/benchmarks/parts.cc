#include "benchmarks/parts.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "paceline/machine.h"

namespace paceline::cli {

using Json = nlohmann::ordered_json;

Status check_parts(const CLI::App& command, const std::vector<std::string>& chosen, const std::vector<std::string>& legal,
                   const std::vector<OptionOfParts>& options) {
  const auto has = [](const std::vector<std::string>& all, const std::string& one) {
    return std::ranges::find(all, one) != all.end();
  };
  for (const std::string& part : chosen) {
    if (!has(legal, part))
      return error(ErrorKind::kBadRequest, "--parts knows no '{}'{}; legal: {}", part, suggestion(part, legal),
                   fmt::join(legal, ", "));
  }
  for (const OptionOfParts& one : options) {
    const bool wanted = std::ranges::any_of(one.parts, [&](const std::string& part) { return has(chosen, part); });
    if (command.count(one.name) > 0 && !wanted)
      return error(ErrorKind::kBadRequest, "{0} is for --parts {1}; give {1}, or leave {0} out", one.name,
                   fmt::format("{}", fmt::join(one.parts, " or ")));
  }
  return {};
}

Json surroundings() {
  const Machine machine = this_machine();
  double load = 0;
  if (std::FILE* file = std::fopen("/proc/loadavg", "r")) {
    if (std::fscanf(file, "%lf", &load) != 1) load = 0;
    std::fclose(file);
  }
  return {{"processor", machine.processor}, {"cores", machine.usable_cores}, {"system", machine.system}, {"load_before", load}};
}

std::string surroundings_text(const Json& machine) {
  return fmt::format("{}, {} cores, {}, load before {:.1f}", machine["processor"].get<std::string>(), machine["cores"].get<int>(),
                     machine["system"].get<std::string>(), machine["load_before"].get<double>());
}

std::unique_ptr<ProgressBar> make_bar(const char* label, const PartOptions& options, int runs, const Clock& clock) {
  auto bar =
      std::make_unique<ProgressBar>(label, runs, options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
  bar->update(0);
  return bar;
}

std::string rate_text(const bench::Spread& spread) {
  const auto gigabytes = [](double value) { return fmt::format("{:.2f}", value / 1e9); };
  return fmt::format("{:>6} GB/s  ({} .. {})", gigabytes(spread.median), gigabytes(spread.lowest), gigabytes(spread.highest));
}

std::string milliseconds_text(const bench::Spread& spread) {
  return fmt::format("{:.2f} ms ({:.2f} .. {:.2f})", spread.median * 1e3, spread.lowest * 1e3, spread.highest * 1e3);
}

}  // namespace paceline::cli
