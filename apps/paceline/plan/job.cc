// `paceline plan job`: one recommendation from what was measured, with its reasons; as text, JSON, a file for `train --plan`, and a
// picture.
#include <cmath>

#include "base/new_file.h"
#include "base/text.h"
#include "paceline/option_files.h"
#include "paceline/plan/job_picture.h"
#include "paceline/plan/question.h"
#include "paceline/plan/recommendation.h"
#include "paceline/train/request.h"
#include "paceline/wrong.h"

namespace paceline::cli {
namespace {

struct Asked {
  JobQuestion question;
  std::string memory, bandwidth, worker_bandwidth, duplex = "full";
  double speedup = 0, efficiency = 0, overhead = 0;
  std::int64_t workers = 0;
  std::string measurements, picture, output;
  bool json = false;
};

Result<BytesPerSecond> rate(const char* option, const std::string& text) {
  auto parsed = parse_rate(text);
  if (!parsed.ok()) return wrong("{}: {}", option, parsed.status().message());
  if (!(parsed->value > 0)) return wrong("{} is {}; it must be above zero", option, text);
  return parsed;
}

Result<JobQuestion> question_of(const Asked& asked, const CLI::App& command) {
  JobQuestion question = asked.question;
  const auto given = [&command](const char* option) { return command.count(option) > 0; };
  if (question.samples < 1) return wrong("--dataset-size is {}; legal: 1 and more", question.samples);
  auto memory = parse_bytes(asked.memory);
  if (!memory.ok()) return wrong("--memory: {}", memory.status().message());
  if (memory->count < 1) return wrong("--memory is {}; it must be above zero", asked.memory);
  question.memory = *memory;
  for (const std::int64_t mini_batch : question.mini_batches) {
    if (mini_batch < 1) return wrong("--mini-batches has {}; legal: 1 and more", mini_batch);
  }
  if (given("--workers") && given("--speedup")) return wrong("--workers and --speedup contradict each other; give one of them");
  if (given("--workers")) {
    if (asked.workers < 1 || asked.workers > 100'000) return wrong("--workers is {}; legal: 1 to 100000", asked.workers);
    question.workers = asked.workers;
  }
  if (given("--speedup")) {
    if (!std::isfinite(asked.speedup) || !(asked.speedup > 0))
      return wrong("--speedup is {}; legal are finite numbers above 0", asked.speedup);
    question.speedup = asked.speedup;
  }
  if (given("--efficiency")) {
    if (!(asked.efficiency > 0 && asked.efficiency <= 1))
      return wrong("--efficiency is {}; legal are numbers above 0 and up to 1", asked.efficiency);
    question.efficiency = asked.efficiency;
  }
  if (given("--overhead")) {
    if (!std::isfinite(asked.overhead) || asked.overhead < 0)
      return wrong("--overhead is {}; legal are finite numbers from 0", asked.overhead);
    question.overhead = asked.overhead;
  }
  if (given("--worker-bandwidth") && !given("--bandwidth"))
    return wrong("--worker-bandwidth needs --bandwidth, that of a server's link");
  if (given("--bandwidth")) {
    PACELINE_ASSIGN_OR_RETURN(question.bandwidth, rate("--bandwidth", asked.bandwidth));
  }
  if (given("--worker-bandwidth")) {
    PACELINE_ASSIGN_OR_RETURN(question.worker_bandwidth, rate("--worker-bandwidth", asked.worker_bandwidth));
  }
  if (asked.duplex != "full" && asked.duplex != "half") return wrong("--duplex is '{}'; legal are full and half", asked.duplex);
  question.duplex = asked.duplex == "full" ? planner::Duplex::kFull : planner::Duplex::kHalf;
  return question;
}

Result<Measurements> measurements_of(const Asked& asked) {
  if (!asked.measurements.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option("--measurements", asked.measurements));
    return read_measurements(text, "--measurements " + asked.measurements);
  }
  Cache cache = load_cache();
  if (!cache.notice.empty()) fmt::print(stderr, "paceline: {}\n", cache.notice);
  return std::move(cache.measurements);
}

// R_O as it was measured: of the data set that was named, else of any; with the nearest mini-batch. Null: it was not.
const MeasuredOverhead* measured_overhead(const Asked& asked, const Measurements& measurements, std::int64_t mini_batch) {
  const MeasuredOverhead* nearest = nullptr;
  for (const MeasuredOverhead& measured : measurements.overheads) {
    if (measured.model != asked.question.model || (!asked.question.dataset.empty() && measured.dataset != asked.question.dataset))
      continue;
    const auto distance = [mini_batch](const MeasuredOverhead& one) { return std::abs(one.mini_batch - mini_batch); };
    if (nearest == nullptr || distance(measured) < distance(*nearest)) nearest = &measured;
  }
  return nearest;
}

Status run(const Asked& asked, const CLI::App& command) {
  PACELINE_ASSIGN_OR_RETURN(JobQuestion question, question_of(asked, command));
  PACELINE_RETURN_IF_ERROR(model::describe(question.model).status());
  if (!question.dataset.empty()) PACELINE_RETURN_IF_ERROR(check_data_set_name(question.dataset));
  PACELINE_RETURN_IF_ERROR(check_output("--output", asked.output));
  PACELINE_RETURN_IF_ERROR(check_output("--picture", asked.picture));
  PACELINE_ASSIGN_OR_RETURN(const Measurements measurements, measurements_of(asked));
  // The mini-batch does not depend on R_O, so it is known for which one R_O is to be looked up.
  JobQuestion first = question;
  first.workers = 1;
  first.speedup = first.efficiency = std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const Json for_one, recommend(first, measurements));
  const MeasuredOverhead* measured =
      for_one["mini_batch"].is_number() ? measured_overhead(asked, measurements, for_one["mini_batch"]) : nullptr;
  if (measured != nullptr) {
    if (!question.overhead) question.overhead = measured->overhead;
    question.prefetch = measured->prefetch;
    question.loader_threads = measured->loader_threads;
  }
  PACELINE_ASSIGN_OR_RETURN(const Json answer, recommend(question, measurements));
  if (!asked.output.empty()) PACELINE_RETURN_IF_ERROR(write_file(system_files(), asked.output, answer.dump(2) + "\n"));
  if (!asked.picture.empty()) PACELINE_RETURN_IF_ERROR(draw_job(answer, asked.picture));
  fmt::print("{}", asked.json ? answer.dump(2) + "\n" : recommendation_text(answer));
  return {};
}

}  // namespace

void add_job_question(CLI::App& plan, Chosen& chosen) {
  const auto asked = std::make_shared<Asked>();
  CLI::App* command =
      plan.add_subcommand("job", "Mini-batch, convolution algorithms, workers and servers for a job, from measured times");
  command->add_option("--model", asked->question.model, "Network; 'paceline models' lists them")->required();
  command->add_option("--dataset-size", asked->question.samples, "Samples of a data epoch")->required()->option_text("COUNT");
  command->add_option("--memory", asked->memory, "Of one worker, e.g. 4GiB")->required()->option_text("SIZE");
  command
      ->add_option("--mini-batches", asked->question.mini_batches,
                   "Candidates, separated by commas (default: all that were measured)")
      ->delimiter(',');
  command->add_option("--workers", asked->workers, "Workers; or give --speedup, or --efficiency (default 1)");
  command->add_option("--speedup", asked->speedup, "Over one worker: the fewest workers that reach it");
  command->add_option("--efficiency", asked->efficiency,
                      "Above 0 and up to 1: the most workers that reach it; beside --workers or --speedup a condition");
  command->add_option("--overhead", asked->overhead,
                      "R_O (default: as 'paceline profile --steps' measured it, with the nearest mini-batch)");
  command
      ->add_option("--bandwidth", asked->bandwidth,
                   "Of a server's link, e.g. 1gbit; and of a worker's, unless --worker-bandwidth is given")
      ->option_text("RATE");
  command->add_option("--worker-bandwidth", asked->worker_bandwidth, "Of a worker's link")->option_text("RATE");
  command->add_option("--duplex", asked->duplex, "full (pushes and pulls at once) or half")->capture_default_str();
  command->add_option("--dataset", asked->question.dataset,
                      "Whose measured overhead counts, and which 'train --plan' takes (default: any, and train's own)");
  command
      ->add_option("--measurements", asked->measurements,
                   "Measured times, as 'paceline profile --convolutions --json' prints them (default: this machine's)")
      ->option_text("FILE");
  command->add_option("--output", asked->output, "Write the answer there, for 'paceline train --plan FILE'")->option_text("FILE");
  command
      ->add_option("--picture", asked->picture,
                   "Draw throughput and memory against the mini-batch, and the speed-up against the workers (.png, .svg, .pdf; "
                   "needs matplotlib)")
      ->option_text("FILE");
  command->add_flag("--json", asked->json, "One JSON document");
  set_examples(*command,
               "  paceline profile --convolutions --model lenet --mini-batches 16,32,64\n"
               "  paceline plan job --model lenet --dataset-size 4000 --memory 2GiB --speedup 3 --overhead 0.1 --bandwidth 1gbit "
               "--output plan.json");
  command->callback([asked, command, &chosen] {
    chosen.run = [asked, command] {
      const Status status = run(*asked, *command);
      return status.ok() ? static_cast<int>(kDone) : report_error(status);
    };
  });
}

}  // namespace paceline::cli
