#include "planner/tuning/choose_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "planner/tuning/choice.h"
#include "planner/tuning/tune.h"
#include "replay/table.h"

namespace paceline::tuning {
namespace {

using report::Json;
using scheduling::ScheduleOptions;
using scheduling::SliceLimits;
using simulation::Cluster;

// Index and value of an element that is sent, over the value alone.
constexpr double kSparseElement = 2;
// Of all workers with the formulas' schedule, in all iterations that are predicted: to predict the combinations of more takes too
// long.
constexpr double kMostMessages = 150'000;

// A size in the job as one of the model that the job's is `scale` times smaller than.
std::int64_t unscaled(std::int64_t elements, double scale) { return std::llround(static_cast<double>(elements) * scale); }

SliceLimits limits_for(double scale) {
  const auto divided = [&](Bytes size) {
    return Bytes{std::max<std::int64_t>(kParameterBytes, std::llround(static_cast<double>(size.count) / scale))};
  };
  return {.smallest = divided(SliceLimits{}.smallest), .largest = divided(SliceLimits{}.largest)};
}

Given given_by(const job::JobSpec& settings, const ScheduleOptions& typed) {
  const scheduling::Cut cut = scheduling::scaled(typed.cut, settings.task.scale);
  Given given;
  if (typed.places != scheduling::OrderedPlaces{}) given.places = typed.places;
  if (settings.schedule.slice) given.slice = cut.elements;
  if (settings.schedule.merge) given.merge = cut.merge;
  if (typed.window != scheduling::WindowRule{} || !typed.places.window) given.window = typed.window;
  if (settings.schedule.back) given.back = typed.back;
  if (settings.schedule.batching) given.batching = typed.batching;
  if (settings.schedule.push) given.push = typed.push;
  return given;
}

// How long the layers compute on a worker that nothing slows down. Errors say why nobody knows.
Result<simulation::Job> profile_of(const job::JobSpec& settings, const wire::TensorTable& table,
                                   const wire::LayerSeconds& measured) {
  const auto file = job::replay_file(settings);
  if (!file && measured.empty())
    return error(ErrorKind::kBadRequest, "how long the layers of {} compute was not measured",
                 settings.task.model == "(own)" ? "a program's own model" : settings.task.model);
  if (!file) return simulation::Job{.table = table, .forward = measured.forward, .backward = measured.backward};
  PACELINE_ASSIGN_OR_RETURN(replay::LayerTable rows, replay::read_table(*file));
  rows = replay::scaled(std::move(rows), settings.task.scale);
  if (replay::tensors_of(rows) != table) {
    return error(ErrorKind::kBadRequest, "{} is not the same file here as where the workers are", *file);
  }
  simulation::Job job{.table = table};
  for (const replay::LayerRow& row : rows.layers) {
    job.forward.push_back(row.forward);
    job.backward.push_back(row.backward);
  }
  return job;
}

// The job that is to be predicted. Errors: as profile_of().
Result<simulation::Job> job_of(const job::JobSpec& settings, const wire::TensorTable& table, std::int32_t workers,
                               const wire::LayerSeconds& measured) {
  PACELINE_ASSIGN_OR_RETURN(simulation::Job job, profile_of(settings, table, measured));
  PACELINE_ASSIGN_OR_RETURN(job.speed, job::compute_speed(settings, workers));
  PACELINE_ASSIGN_OR_RETURN(const job::WireOptions wire, job::wire_of(settings));
  if (wire.drops()) job.pushed = std::min(1.0, wire.share * kSparseElement);
  job.sync = settings.sync;
  job.holds_updates = job::server_update(settings).holds_updates();
  return job;
}

Json json_of(const ScheduleOptions& schedule, double scale) {
  return {{"slice", unscaled(schedule.cut.elements, scale)},
          {"merge", unscaled(schedule.cut.merge, scale)},
          {"window", scheduling::to_text(schedule.window)},
          {"return", scheduling::to_string(schedule.back)},
          {"ordered-places", scheduling::to_text(schedule.places)}};
}

std::string sizes_text(const ScheduleOptions& schedule, double scale) {
  const auto bytes = [&](std::int64_t elements) { return to_text(Bytes{unscaled(elements, scale) * kParameterBytes}); };
  return fmt::format("slices of {}, {} merged, window {}, {}{}", bytes(schedule.cut.elements),
                     schedule.cut.merge == 0 ? "nothing" : "up to " + bytes(schedule.cut.merge),
                     scheduling::to_text(schedule.window), scheduling::to_string(schedule.back),
                     schedule.places == scheduling::OrderedPlaces{} ? "" : ", ordered at " + scheduling::to_text(schedule.places));
}

}  // namespace

Result<Json> choose_schedule(job::JobSpec& settings, const wire::TensorTable& table, std::int32_t workers, std::int32_t servers,
                             const runtime::Gathering& gathering, const MeasureServer& measure_server) {
  if (settings.schedule.name != "tuned") return Json();
  if (!gathering.link) {
    log::warn("the link could not be measured; --schedule tuned assumes {}", words_of(kAssumedLink));
  }
  const cost::LinkFit link = gathering.link.value_or(kAssumedLink);
  PACELINE_ASSIGN_OR_RETURN(const ScheduleOptions typed, job::schedule_of(settings));
  const Given given = given_by(settings, typed);
  const SliceLimits limits = limits_for(settings.task.scale);
  const bool shared = gathering.both == workers && workers == servers;
  PACELINE_ASSIGN_OR_RETURN(const job::WireOptions wire, job::wire_of(settings));
  // Half the bytes take as long as all of them on a link that is twice as fast.
  const double narrowed = static_cast<double>(kParameterBytes) / static_cast<double>(wire.element_bytes());
  PACELINE_ASSIGN_OR_RETURN(const double aggregation, measure_server(settings, workers));
  const Cluster cluster{.workers = workers,
                        .servers = servers,
                        .layout = shared ? Cluster::Layout::kShared : Cluster::Layout::kSeparate,
                        .link = {link.bandwidth.value * narrowed},
                        .start_up = link.start_up,
                        .processing = simulation::kUsualProcessing,
                        .aggregation = aggregation};
  Bytes model;
  for (const wire::TensorInfo& tensor : table.tensors) model += Bytes{tensor.elements() * kParameterBytes};

  ScheduleOptions chosen = tuning::by_formula(model, cluster, limits, given);
  Json predicted, candidates = Json::array();
  std::string why;
  auto job = job_of(settings, table, workers, gathering.seconds);
  if (job.ok() && messages_of(table, chosen, workers) * static_cast<double>(predicted_iterations(*job)) > kMostMessages)
    job = error(ErrorKind::kBadRequest, "an iteration of {} workers has too many messages to predict", workers);
  if (job.ok()) {
    PACELINE_ASSIGN_OR_RETURN(const tuning::Choice choice, tuning::tune(*job, cluster, limits, given));
    chosen = choice.schedule;
    predicted = {{"seconds", choice.predicted.iteration},
                 {"lower_bound", choice.predicted.lower_bound > 0 ? Json(choice.predicted.lower_bound) : Json(nullptr)}};
    for (const tuning::Candidate& candidate : choice.candidates) {
      candidates.push_back(json_of(candidate.schedule, settings.task.scale));
      candidates.back()["seconds"] = candidate.predicted.iteration;
    }
    why = choice.why;
  } else {
    why = fmt::format("by formula, since {}", job.status().message());
  }
  Json result = json_of(chosen, settings.task.scale);
  for (const auto& [name, value] : result.items())
    PACELINE_RETURN_IF_ERROR(job::set_option(settings, name, value.is_string() ? value.get<std::string>() : value.dump()));
  result["by"] = job.ok() ? "prediction" : "formula";
  result["bandwidth"] = link.bandwidth.value;
  result["start_up"] = link.start_up;
  result["residual"] = link.residual;
  result["aggregation"] = aggregation;
  result["measured"] = gathering.link.has_value();
  result["predicted"] = std::move(predicted);
  result["candidates"] = std::move(candidates);
  result["why"] =
      fmt::format("{}: for {} of parameters{}{}, {} and a link with {} ({}); {}", sizes_text(chosen, settings.task.scale),
                  to_text(Bytes{std::llround(static_cast<double>(model.count) * settings.task.scale)}),
                  settings.task.scale == 1 ? "" : fmt::format(" (sizes before --scale {:g})", settings.task.scale),
                  wire.narrow() ? fmt::format(" sent as {}", wire.text()) : "", counted(workers, "worker"), words_of(link),
                  gathering.link ? how_measured(link) : "assumed", why);
  return result;
}

}  // namespace paceline::tuning
