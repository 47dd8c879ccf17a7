// `paceline plan job`: one recommendation from what was measured, with its reasons; as text, JSON, a file for `train --plan`, and a
// picture.
#include "base/new_file.h"
#include "base/text.h"
#include "base/wrong.h"
#include "paceline/data_files.h"
#include "paceline/option_files.h"
#include "paceline/picture.h"
#include "paceline/plan/case_options.h"
#include "paceline/plan/job_picture.h"
#include "paceline/plan/question.h"
#include "paceline/profile/cache.h"
#include "paceline/train/data_check.h"
#include "paceline/train/request.h"
#include "paceline/within.h"
#include "planner/questions/recommendation.h"

namespace paceline::cli {
namespace {

using planner::JobQuestion;
using planner::Measurements;
using planner::Recommendation;

constexpr std::int64_t kMostSamples = 9'000'000'000'000'000;

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
  if (!parsed.ok()) return at(option, parsed.status());
  if (!(parsed->value > 0)) return wrong("{} is {}; it must be above zero", option, text);
  return parsed;
}

Result<JobQuestion> question_of(const Asked& asked, const CLI::App& command) {
  JobQuestion question = asked.question;
  const auto given = [&command](const char* option) { return command.count(option) > 0; };
  PACELINE_ASSIGN_OR_RETURN(const Json memory, values_from_options(*planner::find_question("job"), {{"memory", asked.memory}}));
  question.memory.count = memory["memory"];
  if (question.memory.count < 1) return wrong("--memory is {}; it must be above zero", asked.memory);
  if (given("--workers")) question.workers = asked.workers;
  if (given("--speedup")) question.speedup = asked.speedup;
  if (given("--efficiency")) question.efficiency = asked.efficiency;
  if (given("--overhead")) question.overhead = asked.overhead;
  if (given("--bandwidth")) {
    PACELINE_ASSIGN_OR_RETURN(question.bandwidth, rate("--bandwidth", asked.bandwidth));
  }
  if (given("--worker-bandwidth")) {
    PACELINE_ASSIGN_OR_RETURN(question.worker_bandwidth, rate("--worker-bandwidth", asked.worker_bandwidth));
  }
  if (given("--duplex") && !given("--bandwidth"))
    return wrong("--duplex is for the servers' link; give --bandwidth, or leave it out");
  if (asked.duplex != "full" && asked.duplex != "half") return wrong("--duplex is '{}'; legal are full and half", asked.duplex);
  question.duplex = asked.duplex == "full" ? planner::Duplex::kFull : planner::Duplex::kHalf;
  PACELINE_RETURN_IF_ERROR(planner::validate(question, option_name));
  return question;
}

Result<Measurements> measurements_of(const Asked& asked) {
  if (!asked.measurements.empty()) {
    const std::string source = "--measurements " + asked.measurements;
    PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option("--measurements", asked.measurements));
    PACELINE_ASSIGN_OR_RETURN(const Json json, planner::parse_json(text, source, planner::CaseIndex::kNone));
    return planner::read_measurements(json, source);
  }
  Cache cache = load_cache();
  if (!cache.notice.empty()) fmt::print(stderr, "paceline: {}\n", cache.notice);
  return std::move(cache.measurements);
}

Status run(const Asked& asked, const CLI::App& command) {
  PACELINE_ASSIGN_OR_RETURN(const JobQuestion question, question_of(asked, command));
  if (!question.dataset.empty()) PACELINE_RETURN_IF_ERROR(check_data_set_name(question.dataset));
  PACELINE_RETURN_IF_ERROR(check_output("--output", asked.output));
  PACELINE_RETURN_IF_ERROR(check_picture("--picture", asked.picture));
  PACELINE_RETURN_IF_ERROR(
      check_no_data(question.dataset, {{"--output", asked.output}, {"--picture", asked.picture}}, "--dataset"));
  PACELINE_ASSIGN_OR_RETURN(const Measurements measurements, measurements_of(asked));
  PACELINE_ASSIGN_OR_RETURN(const Recommendation recommendation, planner::recommend(question, measurements));
  const Json answer = to_json(recommendation);
  if (!asked.output.empty()) PACELINE_RETURN_IF_ERROR(write_file(system_files(), asked.output, answer.dump(2) + "\n"));
  fmt::print("{}", asked.json ? answer.dump(2) + "\n" : to_text(recommendation));
  return asked.picture.empty() ? Status() : draw_job(answer, asked.picture);
}

}  // namespace

void add_job_question(CLI::App& plan, Chosen& chosen) {
  const auto asked = std::make_shared<Asked>();
  CLI::App* command =
      plan.add_subcommand("job", "Mini-batch, convolution algorithms, workers and servers for a job, from measured times");
  command->add_option("--model", asked->question.model, "Network; 'paceline models' lists them")->required();
  within(command->add_option("--dataset-size", asked->question.samples, "Samples of a data epoch"), 1, kMostSamples)
      ->required()
      ->option_text("COUNT");
  command->add_option("--memory", asked->memory, "Of one worker, e.g. 4GiB")->required()->option_text("SIZE");
  within(command->add_option("--mini-batches", asked->question.mini_batches,
                             "Candidates, separated by commas (default: all that were measured)"),
         1, kMostSamples)
      ->delimiter(',');
  within(command->add_option("--workers", asked->workers, "Workers; or give --speedup, or --efficiency (default 1)"), 1,
         kMostProcesses);
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
      ->check(not_empty)
      ->option_text("FILE");
  command->add_option("--output", asked->output, "Write the answer there, for 'paceline train --plan FILE'")
      ->check(not_empty)
      ->option_text("FILE");
  command
      ->add_option("--picture", asked->picture,
                   "Draw throughput and memory against the mini-batch, and the speed-up against the workers (.png, .svg, .pdf; "
                   "needs matplotlib)")
      ->check(not_empty)
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
