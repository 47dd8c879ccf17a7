// What the benchmarks of single parts have in common: options, the machine, progress and figures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/spread.h"
#include "paceline/command.h"
#include "paceline/progress.h"

namespace paceline::cli {

struct PartOptions {
  bool quick = false;
  bool json = false;
  bool progress = false;
};

// An option of a benchmark with --parts that says something to these of them alone.
struct OptionOfParts {
  const char* name;
  std::vector<std::string> parts;
};
// kBadRequest: one of the `chosen` is none of `legal`, or an option was given and none of its parts is wanted.
Status check_parts(const CLI::App& command, const std::vector<std::string>& chosen, const std::vector<std::string>& legal,
                   const std::vector<OptionOfParts>& options);

// What a reader must know to judge the figures.
nlohmann::ordered_json surroundings();
std::string surroundings_text(const nlohmann::ordered_json& machine);

std::unique_ptr<ProgressBar> make_bar(const char* label, const PartOptions& options, int runs, const Clock& clock);

// "  2.88 GB/s  (1.32 .. 3.32)", "0.53 ms (0.50 .. 0.61)"
std::string rate_text(const bench::Spread& spread);
std::string milliseconds_text(const bench::Spread& spread);

}  // namespace paceline::cli
