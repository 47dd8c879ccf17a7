#include "paceline/profile/profile.h"

#include <memory>

namespace paceline::cli {
namespace {

struct Asked {
  ProfileOptions options;
  bool convolutions = false;
  bool steps = false;
  bool memory = false;
};

int run(const Asked& asked) {
  if (asked.convolutions) return profile_convolutions(asked.options);
  if (asked.steps) return profile_steps(asked.options);
  if (asked.memory) return profile_memory(asked.options);
  return report_error(
      error(ErrorKind::kBadRequest, "profile needs one of --convolutions, --steps, --memory; see 'paceline profile --help'"));
}

}  // namespace

void add_profile(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("profile", "Measure on this machine what 'paceline plan' asks for");
  const auto asked = std::make_shared<Asked>();
  ProfileOptions& options = asked->options;
  CLI::Option* convolutions =
      command->add_flag("--convolutions", asked->convolutions,
                        "Time and workspace of each convolution with each algorithm, the rest of a step and its memory; kept for "
                        "'paceline plan job'");
  CLI::Option* steps = command
                           ->add_flag("--steps", asked->steps,
                                      "The phases of real training iterations and the overhead R_O, with and without reading "
                                      "ahead; kept for 'paceline plan "
                                      "job'")
                           ->excludes(convolutions);
  command
      ->add_flag(
          "--memory", asked->memory,
          "The most memory of one step beside the formula of 'paceline plan memory', for --model, or for every network that fits")
      ->excludes(convolutions)
      ->excludes(steps);
  command->add_option("--model", options.model, "Network; 'paceline models' lists them")
      ->capture_default_str()
      ->each([asked](const std::string&) { asked->options.model_given = true; });
  command
      ->add_option("--mini-batches", options.mini_batches,
                   "--convolutions: sizes to measure, separated by commas (default 8,16,32,64)")
      ->delimiter(',');
  command->add_option("--dataset", options.dataset, "--steps: data set (default: made up for the model)");
  command->add_option("--mini-batch", options.mini_batch, "--steps, --memory: samples per iteration")->capture_default_str();
  command->add_option("--iterations", options.iterations, "--steps: of each run")->capture_default_str();
  command->add_option("--rounds", options.rounds, "--convolutions: steps timed with each algorithm")->capture_default_str();
  command->add_flag("--again", options.again, "Measure also what has been measured on this machine before");
  command->add_flag("--json", options.json, "One JSON document; times in seconds, memory in bytes");
  command->add_flag("--progress", options.progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline profile --convolutions --model alexnet-32 --mini-batches 8,16,32,64\n"
               "  paceline profile --steps --model lenet --dataset mnist-5k --json");
  command->callback([asked, &chosen] { chosen.run = [asked] { return run(*asked); }; });
}

}  // namespace paceline::cli
