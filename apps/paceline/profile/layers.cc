// `paceline profile` without a flag: how long each layer of a network computes on this machine, and what its transfer costs. With
// --record it writes a table to replay. A fresh trainer process measures, with one thread, as a worker has.
#include <fmt/format.h>

#include "base/new_file.h"
#include "base/text.h"
#include "base/wrong.h"
#include "model/description.h"
#include "paceline/machine.h"
#include "paceline/option_files.h"
#include "paceline/profile/expected_memory.h"
#include "paceline/profile/layer_table.h"
#include "paceline/profile/link.h"
#include "paceline/profile/profile.h"
#include "paceline/progress.h"
#include "paceline/train/trainer_program.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kWarmUp = 2;  // steps that count for nothing: caches, allocations

Status check_layers(const ProfileOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription model, model::describe(options.model));
  if (!options.limit.empty()) {
    const auto limit = parse_duration(options.limit);
    if (!limit.ok()) return at("--limit", limit.status());
    if (*limit <= Duration::zero()) return error(ErrorKind::kBadRequest, "--limit is {}; it must be above zero", options.limit);
  }
  PACELINE_RETURN_IF_ERROR(check_link_options(options));
  PACELINE_RETURN_IF_ERROR(trainer_exists());
  const std::int64_t available = this_machine().available_bytes;
  PACELINE_ASSIGN_OR_RETURN(const ExpectedMemory expected, expected_memory(model, options.mini_batch));
  if (expected.most > static_cast<double>(available)) {
    return error(ErrorKind::kBadRequest,
                 "a step of {} with --mini-batch {} may take {}, and {} are free; give a smaller --mini-batch", options.model,
                 options.mini_batch, to_text(Bytes{static_cast<std::int64_t>(expected.most)}), to_text(Bytes{available}));
  }
  return check_output("--record", options.record);  // found out before minutes of measuring
}

Result<MeasuredLayers> measure_layers(const ProfileOptions& options) {
  const SystemClock clock;
  const auto show = options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal;
  ProgressBar bar(fmt::format("{}, mini-batch {}", options.model, options.mini_batch), kWarmUp + options.rounds, show, clock);
  bar.update(0);
  const double limit = options.limit.empty() ? 0 : seconds(*parse_duration(options.limit));
  Result<MeasuredLayers> measured = error(ErrorKind::kIo, "the trainer measured nothing");
  const Json request = {{"label", "profile"},
                        {"profile",
                         {{"model", options.model},
                          {"mini_batch", options.mini_batch},
                          {"rounds", options.rounds},
                          {"warm_up", kWarmUp},
                          {"limit", limit}}}};
  PACELINE_RETURN_IF_ERROR(run_trainer(request, [&](const Json& line) {
    if (line.contains("measurement")) measured = read_layers_measurement(line["measurement"]);
    if (line.contains("progress")) bar.update(line["progress"][0].get<std::int64_t>());
  }));
  if (!measured.ok()) return measured;
  const Machine machine = this_machine();
  measured->model = options.model;
  measured->mini_batch = options.mini_batch;
  measured->source = fmt::format("paceline {} profile on {}, one thread, mini-batch {}: medians of {} steps after {} that warm up",
                                 PACELINE_VERSION, machine.processor, options.mini_batch, measured->rounds, measured->warm_up);
  return measured;
}

Status record(const std::string& path, const MeasuredLayers& measured) {
  if (path.empty()) return {};
  return write_file(system_files(), path, record_text(measured));
}

}  // namespace

int profile_layers(const ProfileOptions& options) {
  if (const Status status = check_layers(options); !status.ok()) return report_error(status);
  // The link first: seconds, and a server that cannot be reached is said before minutes of measuring.
  const auto link = link_of(options);
  if (!link.ok()) return report_error(link.status());
  if (!link->warning.empty()) fmt::print(stderr, "paceline: warning: {}\n", link->warning);
  const auto measured = measure_layers(options);
  if (!measured.ok()) return report_error(measured.status());
  if (const Status status = record(options.record, *measured); !status.ok()) return report_error(status);
  if (options.json) {
    fmt::print("{}\n", profile_json(*measured, *link, options.nodes).dump(2));
    return kDone;
  }
  fmt::print("{}", profile_text(*measured, *link));
  if (!options.record.empty()) fmt::print("\nrecorded in {0}; replay it with: paceline train --model replay:{0}\n", options.record);
  return kDone;
}

}  // namespace paceline::cli
