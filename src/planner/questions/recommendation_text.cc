#include <fmt/format.h>

#include "base/amounts.h"
#include "planner/questions/recommendation.h"

namespace paceline::planner {
namespace {

std::string row_of(const Recommendation::Candidate& candidate) {
  const std::string beginning = fmt::format("{:>10}", candidate.mini_batch);
  if (!candidate.run) return beginning + "  " + candidate.reason + "\n";
  const auto rate = [&candidate](double seconds) {
    return seconds > 0 ? fmt::format("{:.1f}", static_cast<double>(candidate.mini_batch) / seconds) : std::string("-");
  };
  return fmt::format("{} {:>12} {:>12} {:>14} {:>14} {:>12}\n", beginning, in_time(candidate.run->iteration_seconds),
                     in_time(candidate.run->epoch_seconds), rate(candidate.run->iteration_seconds),
                     rate(candidate.default_step_seconds), in_bytes(candidate.run->workspace_bytes));
}

}  // namespace

std::string to_text(const Recommendation& r) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  line("model", r.model);
  if (!r.no_answer.empty()) line("no answer", r.no_answer);
  if (r.chosen) {
    line("mini-batch", std::to_string(r.best().mini_batch));
    for (const auto& [layer, algorithm] : r.run().convolutions) line("", fmt::format("{:<20} {}", layer, to_string(algorithm)));
    line("workers", r.workers ? std::to_string(*r.workers) : "-");
    line("servers", r.servers ? std::to_string(r.servers->servers) : "-");
  }
  if (!r.reasons.empty()) text += "\nwhy\n";
  for (const std::string& reason : r.reasons) text += "  " + reason + "\n";
  if (!r.checks.empty()) text += "\nchecks\n";
  for (const Recommendation::Check& check : r.checks) text += fmt::format("  {:<5} {}\n", check.well ? "well" : "look", check.text);
  if (r.candidates.empty()) return text;
  text += fmt::format("\n{:>10} {:>12} {:>12} {:>14} {:>14} {:>12}\n", "mini-batch", "iteration", "data epoch", "samples/s",
                      "default's", "workspaces");
  for (const Recommendation::Candidate& candidate : r.candidates) text += row_of(candidate);
  return text;
}

}  // namespace paceline::planner
