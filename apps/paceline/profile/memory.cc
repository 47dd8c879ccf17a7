// `paceline profile --memory`: the most memory that one real step takes, beside the formula of `plan memory`, for one network or
// all of them. Each in a fresh process, whose high-water mark is then the step's.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "model/description.h"
#include "paceline/machine.h"
#include "paceline/profile/cache.h"
#include "paceline/profile/expected_memory.h"
#include "paceline/profile/profile.h"
#include "paceline/progress.h"
#include "paceline/train/trainer_program.h"

namespace paceline::cli {
namespace {

using planner::MeasuredStep;

struct Row {
  std::string model;
  std::optional<double> formula;         // bytes
  std::optional<MeasuredStep> measured;  // nothing: see `reason`
  std::string reason;
};

Result<Row> measure(const std::string& name, std::int64_t mini_batch, std::int64_t available) {
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription model, model::describe(name));
  Row row;
  row.model = name;
  PACELINE_ASSIGN_OR_RETURN(const ExpectedMemory expected, expected_memory(model, mini_batch));
  row.formula = expected.formula;
  if (expected.most > static_cast<double>(available)) {
    row.reason = fmt::format("may not fit into the {} that are free", to_text(Bytes{available}));
    return row;
  }
  PACELINE_RETURN_IF_ERROR(run_trainer(
      {{"label", "profile"}, {"profile", {{"model", name}, {"mini_batch", mini_batch}, {"rounds", 0}}}}, [&](const Json& line) {
        if (!line.contains("measurement")) return;
        row.measured = MeasuredStep{.model = name, .mini_batch = mini_batch};
        row.measured->tensors_peak_bytes = line["measurement"]["tensors_peak_bytes"];
        row.measured->process_peak_bytes = line["measurement"]["process_peak_bytes"];
        row.measured->process_before_bytes = line["measurement"]["process_before_bytes"];
      }));
  return row;
}

std::optional<double> ratio(const Row& row) {
  if (!row.formula || !row.measured) return std::nullopt;
  return static_cast<double>(row.measured->tensors_peak_bytes) / *row.formula;
}

Json to_json(const Row& row, std::int64_t mini_batch) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  const auto bytes = [&row](std::int64_t MeasuredStep::*field) {
    return row.measured ? Json((*row.measured).*field) : Json(nullptr);
  };
  return {{"model", row.model},
          {"mini_batch", mini_batch},
          {"formula_bytes", or_null(row.formula)},
          {"tensors_peak_bytes", bytes(&MeasuredStep::tensors_peak_bytes)},
          {"process_peak_bytes", bytes(&MeasuredStep::process_peak_bytes)},
          {"process_before_bytes", bytes(&MeasuredStep::process_before_bytes)},
          {"ratio", or_null(ratio(row))},
          {"reason", row.reason.empty() ? Json(nullptr) : Json(row.reason)}};
}

void print(const std::vector<Row>& rows, std::int64_t mini_batch) {
  fmt::print("One step with mini-batch {}: the formula of 'plan memory', and measured in a fresh process\n\n", mini_batch);
  fmt::print("{:<18} {:>12} {:>12} {:>18} {:>12} {:>14}\n", "network", "formula", "tensors", "tensors/formula", "process",
             "of it before");
  for (const Row& row : rows) {
    const std::string formula = row.formula ? to_text(Bytes{static_cast<std::int64_t>(*row.formula)}) : "none";
    if (!row.measured) {
      fmt::print("{:<18} {:>12}   {}\n", row.model, formula, row.reason);
      continue;
    }
    fmt::print("{:<18} {:>12} {:>12} {:>18} {:>12} {:>14}\n", row.model, formula, to_text(Bytes{row.measured->tensors_peak_bytes}),
               ratio(row) ? fmt::format("{:.2f}", *ratio(row)) : "-", to_text(Bytes{row.measured->process_peak_bytes}),
               to_text(Bytes{row.measured->process_before_bytes}));
  }
}

}  // namespace

int profile_memory(const ProfileOptions& options) {
  const std::vector<std::string> models = options.model_given ? std::vector{options.model} : model::names();
  const SystemClock clock;
  ProgressBar bar("profile --memory", static_cast<std::int64_t>(models.size()),
                  options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
  std::vector<Row> rows;
  for (const std::string& name : models) {
    auto row = measure(name, options.mini_batch, this_machine().available_bytes);
    if (!row.ok()) return report_error(row.status());
    rows.push_back(std::move(row).value());
    bar.update(static_cast<std::int64_t>(rows.size()), name);
  }
  if (!options.json) {
    print(rows, options.mini_batch);
    return kDone;
  }
  Json json = Json::array();
  for (const Row& row : rows) json.push_back(to_json(row, options.mini_batch));
  fmt::print("{}\n", json.dump(2));
  return kDone;
}

}  // namespace paceline::cli
