// `paceline profile --steps`: the phases of a real job of one worker and one server, first without reading ahead, then reading
// ahead so far that loading hides; the overhead R_O of Lemma 3.1 from both; and what record files are worth.
#include <csignal>
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/amounts.h"
#include "base/text.h"
#include "model/description.h"
#include "paceline/data_root.h"
#include "paceline/machine.h"
#include "paceline/profile/cache.h"
#include "paceline/profile/prefetch.h"
#include "paceline/profile/profile.h"
#include "paceline/profile/reading.h"
#include "paceline/progress.h"
#include "paceline/temporary_folder.h"
#include "paceline/train/trainer_program.h"
#include "runtime/signals.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kImages = 256;
constexpr const char* kLearningRate = "1e-6";  // what is learned does not matter, but no network may diverge before it is measured

struct Run {
  Prefetch prefetch;
  Json phases;  // seconds per iteration
  double compute() const { return phases["forward"].get<double>() + phases["backward"].get<double>(); }
  double loading() const { return phases["load"].get<double>() + phases["preprocess"].get<double>(); }
  double total() const {
    double sum = 0;
    for (const auto& [name, value] : phases.items()) sum += value.get<double>();
    return sum;
  }
  // Lemma 3.1: what is not computing, and nothing hides, in relation to computing.
  double overhead() const { return compute() > 0 ? (total() - compute()) / compute() : 0; }
};

Result<Run> run_job(const ProfileOptions& options, const std::string& dataset, const Prefetch& prefetch) {
  PACELINE_ASSIGN_OR_RETURN(const std::string output, run_paceline({"train",
                                                                    "--json",
                                                                    "--model",
                                                                    options.model,
                                                                    "--dataset",
                                                                    dataset,
                                                                    "--mini-batch",
                                                                    std::to_string(options.mini_batch),
                                                                    "--iterations",
                                                                    std::to_string(options.iterations),
                                                                    "--workers",
                                                                    "1",
                                                                    "--servers",
                                                                    "1",
                                                                    "--prefetch",
                                                                    std::to_string(prefetch.depth),
                                                                    "--loader-threads",
                                                                    std::to_string(prefetch.threads),
                                                                    "--learning-rate",
                                                                    kLearningRate}));
  const Json report = Json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("phases"))
    return error(ErrorKind::kCorrupt, "the job's report cannot be read: {}", output.substr(0, 80));
  return Run{prefetch, report["phases"]};
}

struct Comparison {
  Reading files, records;
  std::string dataset;
};

// Images in files of their own against the same in a record file: the user's folder, or images made for a network of colour images.
Result<std::optional<Comparison>> compare_records(const ProfileOptions& options, const model::ModelDescription& model,
                                                  const TemporaryFolder& folder) {
  const std::string prefix = "images:";
  std::string dataset = options.dataset;
  std::filesystem::path files;
  if (dataset.empty() && model.input.size() == 3 && model.input[0] == 3 && model.input[1] == model.input[2]) {
    files = folder.path() / "images";
    PACELINE_RETURN_IF_ERROR(write_images(files, model.input[1], kImages, std::min<std::int64_t>(8, model.classes)));
    dataset = fmt::format("images:{},size={}", files.string(), model.input[1]);
  } else if (dataset.rfind(prefix, 0) == 0) {
    files = dataset.substr(prefix.size(), dataset.find(',') - prefix.size());
  } else {
    return std::optional<Comparison>();
  }
  Comparison comparison;
  comparison.dataset = dataset;
  const std::filesystem::path records = folder.path() / "records";
  PACELINE_RETURN_IF_ERROR(pack_records(dataset, data_root(), records));
  PACELINE_ASSIGN_OR_RETURN(comparison.files, measure_reading(dataset, data_root(), files, options.mini_batch));
  PACELINE_ASSIGN_OR_RETURN(comparison.records,
                            measure_reading("records:" + records.string(), data_root(), records, options.mini_batch));
  return std::optional<Comparison>(comparison);
}

std::string dataset_for(const ProfileOptions& options, const model::ModelDescription& model) {
  if (!options.dataset.empty()) return options.dataset;
  const std::int64_t samples = std::max<std::int64_t>(kImages, 2 * options.mini_batch);
  return fmt::format("synthetic:{}x{}x{},classes={},samples={},test=2", model.input[0], model.input[1], model.input[2],
                     model.classes, samples);
}

Json to_json(const Reading& reading) {
  const auto one = [](const ReadingTime& time) { return Json{{"load", time.load}, {"preprocess", time.preprocess}}; };
  return {{"cold", one(reading.cold)}, {"warm", one(reading.warm)}};
}

Json to_json(const Run& run) {
  return {{"prefetch", run.prefetch.depth},
          {"loader_threads", run.prefetch.threads},
          {"phases", run.phases},
          {"overhead", run.overhead()}};
}

struct Profile {
  std::string dataset;
  Run plain, ahead;
  std::optional<Comparison> comparison;
};

Json to_json(const ProfileOptions& options, const Profile& profile) {
  Json json = {{"model", options.model},
               {"dataset", profile.dataset},
               {"mini_batch", options.mini_batch},
               {"iterations", options.iterations},
               {"phases", profile.ahead.phases},
               {"overhead", profile.ahead.overhead()},
               {"overhead_without_pipelining", profile.plain.overhead()},
               {"prefetch", profile.ahead.prefetch.depth},
               {"loader_threads", profile.ahead.prefetch.threads},
               {"without_pipelining", to_json(profile.plain)},
               {"with_pipelining", to_json(profile.ahead)},
               {"reading", nullptr}};
  if (profile.comparison) {
    json["reading"] = {
        {"dataset", profile.comparison->dataset},
        {"seconds_per_sample", {{"files", to_json(profile.comparison->files)}, {"records", to_json(profile.comparison->records)}}}};
  }
  return json;
}

void print(const ProfileOptions& options, const Profile& profile) {
  fmt::print("{} on {}, mini-batch {}, 1 worker, 1 server, {} iterations; per iteration\n\n", options.model, profile.dataset,
             options.mini_batch, options.iterations);
  fmt::print("{:<12} {:>22} {:>22}\n", "phase", "loaded when needed",
             fmt::format("read ahead by {}", profile.ahead.prefetch.depth));
  for (const auto& [name, value] : profile.plain.phases.items())
    fmt::print("{:<12} {:>22} {:>22}\n", name, in_time(value), in_time(profile.ahead.phases[name]));
  fmt::print("{:<12} {:>22} {:>22}\n", "iteration", in_time(profile.plain.total()), in_time(profile.ahead.total()));
  fmt::print("{:<12} {:>22.4f} {:>22.4f}\n\n", "R_O", profile.plain.overhead(), profile.ahead.overhead());
  fmt::print(
      "Loading takes {} a mini-batch and computing {}: {} loader thread{} and {} mini-batches ahead (--prefetch {} "
      "--loader-threads {}) leave {} of it.\n",
      in_time(profile.plain.loading()), in_time(profile.plain.compute()), profile.ahead.prefetch.threads,
      profile.ahead.prefetch.threads == 1 ? "" : "s", profile.ahead.prefetch.depth, profile.ahead.prefetch.depth,
      profile.ahead.prefetch.threads, in_time(profile.ahead.loading()));
  if (!profile.comparison) return;
  fmt::print("\n{:<28} {:>12} {:>12} {:>12}\n", "per sample", "load, cold", "load, warm", "preprocess");
  const auto line = [](const char* name, const Reading& reading) {
    fmt::print("{:<28} {:>12} {:>12} {:>12}\n", name, in_time(reading.cold.load), in_time(reading.warm.load),
               in_time(reading.warm.preprocess));
  };
  line("a file for each image", profile.comparison->files);
  line("one record file", profile.comparison->records);
}

Status check(const ProfileOptions& options, const model::ModelDescription& model) {
  if (options.dataset.empty() && model.input.size() != 3)
    return error(ErrorKind::kBadRequest, "{} learns from text, which cannot be made up; give --dataset", model.name);
  return {};
}

Result<Profile> measure_steps(const ProfileOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const model::ModelDescription model, model::describe(options.model));
  PACELINE_RETURN_IF_ERROR(check(options, model));
  const SystemClock clock;
  ProgressBar bar("profile --steps", 3, options.progress ? ShowProgress::kAlways : ShowProgress::kOnTerminal, clock);
  Profile profile;
  profile.dataset = dataset_for(options, model);
  PACELINE_ASSIGN_OR_RETURN(profile.plain, run_job(options, profile.dataset, {0, 1}));
  bar.update(1);
  const Prefetch prefetch = prefetch_for(profile.plain.loading(), profile.plain.compute(), this_machine().usable_cores);
  PACELINE_ASSIGN_OR_RETURN(profile.ahead, run_job(options, profile.dataset, prefetch));
  bar.update(2);
  PACELINE_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::make());
  const runtime::Signals signals({SIGINT, SIGTERM, SIGHUP}, [&](int) {
    std::error_code ignored;
    std::filesystem::remove_all(folder->path(), ignored);
    _exit(kInterrupted);
  });
  PACELINE_ASSIGN_OR_RETURN(profile.comparison, compare_records(options, model, *folder));
  bar.update(3);
  return profile;
}

}  // namespace

int profile_steps(const ProfileOptions& options) {
  Cache cache = load_cache();
  if (!cache.notice.empty()) fmt::print(stderr, "paceline: {}; measuring anew\n", cache.notice);
  const auto profile = measure_steps(options);
  if (!profile.ok()) return report_error(profile.status());
  cache.measurements.put(planner::MeasuredOverhead{.model = options.model,
                                                   .dataset = profile->dataset,
                                                   .mini_batch = options.mini_batch,
                                                   .overhead = profile->ahead.overhead(),
                                                   .overhead_without_pipelining = profile->plain.overhead(),
                                                   .prefetch = profile->ahead.prefetch.depth,
                                                   .loader_threads = profile->ahead.prefetch.threads});
  if (const Status status = store_cache(cache.measurements); !status.ok()) return report_error(status);
  if (options.json)
    fmt::print("{}\n", to_json(options, *profile).dump(2));
  else
    print(options, *profile);
  return kDone;
}

}  // namespace paceline::cli
