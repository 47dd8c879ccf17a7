#include <fmt/format.h>

#include "base/text.h"
#include "paceline/amounts.h"
#include "paceline/plan/recommendation.h"

namespace paceline::cli {

std::string recommendation_text(const Json& answer) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  const auto number = [&](const char* key) {
    return answer.contains(key) && answer[key].is_number() ? answer[key].dump() : std::string("-");
  };
  line("model", answer["model"]);
  if (answer["feasible"] == false) line("no answer", answer["reason"]);
  if (answer["mini_batch"].is_number()) {
    line("mini-batch", number("mini_batch"));
    for (const auto& [layer, algorithm] : answer["convolutions"].items())
      line("", fmt::format("{:<20} {}", layer, algorithm.get<std::string>()));
    line("workers", number("workers"));
    line("servers", number("servers"));
  }
  if (!answer["reasons"].empty()) {
    text += "\nwhy\n";
    for (const Json& reason : answer["reasons"]) text += "  " + reason.get<std::string>() + "\n";
  }
  if (!answer["checks"].empty()) {
    text += "\nchecks\n";
    for (const Json& check : answer["checks"])
      text += fmt::format("  {:<5} {}\n", check["ok"] == true ? "well" : "look", check["text"].get<std::string>());
  }
  if (answer["candidates"].empty()) return text;
  text += fmt::format("\n{:>10} {:>12} {:>12} {:>14} {:>14} {:>12}\n", "mini-batch", "iteration", "data epoch", "samples/s",
                      "default's", "workspaces");
  for (const Json& one : answer["candidates"]) {
    const std::string beginning = fmt::format("{:>10}", one["mini_batch"].get<std::int64_t>());
    if (one["feasible"] == false) {
      text += beginning + "  " + one["reason"].get<std::string>() + "\n";
      continue;
    }
    const auto rate = [&one](const char* key) {
      return one[key].is_number() ? fmt::format("{:.1f}", one[key].get<double>()) : std::string("-");
    };
    text += fmt::format("{} {:>12} {:>12} {:>14} {:>14} {:>12}\n", beginning, in_time(one["iteration_seconds"]),
                        in_time(one["epoch_seconds"]), rate("samples_per_second"), rate("default_samples_per_second"),
                        in_bytes(one["workspace_bytes"]));
  }
  return text;
}

}  // namespace paceline::cli
