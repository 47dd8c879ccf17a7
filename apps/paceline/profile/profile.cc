#include "paceline/profile/profile.h"

#include <memory>

#include "paceline/within.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000, kMostRounds = 1000;

struct Asked {
  ProfileOptions options;
  bool convolutions = false;
  bool steps = false;
  bool memory = false;
  bool link = false;
};

int run(const Asked& asked) {
  if (asked.convolutions) return profile_convolutions(asked.options);
  if (asked.steps) return profile_steps(asked.options);
  if (asked.memory) return profile_memory(asked.options);
  if (asked.link) return profile_link(asked.options);
  return profile_layers(asked.options);
}

// Each excludes those before it. Returns them.
std::vector<CLI::Option*> add_flags(CLI::App& command, Asked& asked) {
  std::vector<CLI::Option*> flags;
  const auto add = [&](const char* name, bool& chosen, const char* help) {
    CLI::Option* flag = command.add_flag(name, chosen, help);
    for (CLI::Option* other : flags) flag->excludes(other);
    flags.push_back(flag);
  };
  add("--convolutions", asked.convolutions,
      "Time and workspace of each convolution with each algorithm, the rest of a step and its memory; kept for 'paceline plan "
      "job'");
  add("--steps", asked.steps,
      "The phases of real training iterations and the overhead R_O, with and without reading ahead; kept for 'paceline plan job'");
  add("--memory", asked.memory,
      "The most memory of one step beside the formula of 'paceline plan memory', for --model, or for every network that fits");
  add("--link", asked.link,
      "Only the link: what a transfer costs to start and the bytes/s after that, fitted over transfers of several sizes");
  return flags;
}

// `flags` as add_flags returns them, --link the last.
void add_link_options(CLI::App& command, ProfileOptions& options, const std::vector<CLI::Option*>& flags) {
  std::vector<CLI::Option*> added;
  added.push_back(
      command
          .add_option(
              "--server", options.server,
              "Without a flag, --link: other end of the link, HOST or HOST:PORT where 'paceline doctor --serve' runs (default: "
              "one of its own on the loopback)")
          ->option_text("ADDRESS"));
  added.push_back(command
                      .add_option("--bandwidth", options.bandwidth,
                                  "Without a flag, with --start-up: rate of a link that is not measured, as 1gbit or 125MB/s")
                      ->option_text("RATE"));
  added.push_back(
      command.add_option("--start-up", options.start_up, "Start-up time of a transfer over it, as 200us")->option_text("TIME"));
  added.push_back(
      within(command.add_option("--nodes", options.nodes, "Without a flag: number of nodes, handed on to 'plan iteration'"), 1,
             kMost)
          ->capture_default_str());
  for (CLI::Option* option : added) {
    for (CLI::Option* flag : flags) {
      if (flag != flags.back() || option != added.front()) option->excludes(flag);
    }
  }
}

}  // namespace

void add_profile(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure what 'paceline plan' asks for; without a flag, how long each layer of a network computes and travels");
  const auto asked = std::make_shared<Asked>();
  ProfileOptions& options = asked->options;
  const std::vector<CLI::Option*> flags = add_flags(*command, *asked);
  CLI::Option* record = command
                            ->add_option("--record", options.record,
                                         "Without a flag: write the layers as a table for 'paceline train --model replay:FILE'")
                            ->option_text("FILE");
  for (CLI::Option* flag : flags) record->excludes(flag);
  command->add_option("--model", options.model, "Network; 'paceline models' lists them")
      ->capture_default_str()
      ->each([asked](const std::string&) { asked->options.model_given = true; });
  within(command->add_option("--mini-batches", options.mini_batches,
                             "--convolutions: sizes to measure, separated by commas (default 8,16,32,64)"),
         1, kMost)
      ->delimiter(',');
  command->add_option("--dataset", options.dataset, "--steps: data set (default: made up for the model)");
  within(command->add_option("--mini-batch", options.mini_batch, "Without a flag, --steps, --memory: samples per iteration"), 1,
         kMost)
      ->capture_default_str();
  within(command->add_option("--iterations", options.iterations, "--steps: of each run"), 2, kMost)->capture_default_str();
  within(command->add_option("--rounds", options.rounds,
                             "Without a flag: steps that count, after two that warm up; --convolutions: steps timed with each "
                             "algorithm"),
         1, kMostRounds)
      ->capture_default_str();
  CLI::Option* limit = command
                           ->add_option("--limit", options.limit,
                                        "Without a flag: begin no step that would end after this time, once one counts, as 60s")
                           ->option_text("TIME");
  for (CLI::Option* flag : flags) limit->excludes(flag);
  add_link_options(*command, options, flags);
  command->add_flag("--again", options.again, "Measure also what has been measured on this machine before");
  command->add_flag("--json", options.json, "One JSON document; times in seconds, memory and sizes in bytes, rates in bytes/s");
  command->add_flag("--progress", options.progress, "Show progress even when standard error is no terminal");
  set_examples(*command,
               "  paceline profile --model lenet --record lenet.json\n"
               "  paceline profile --model lenet --bandwidth 1gbit --start-up 200us --json | paceline plan batches --input - "
               "--algorithm exact\n"
               "  paceline profile --link --json\n"
               "  paceline profile --convolutions --model alexnet-32 --mini-batches 8,16,32,64\n"
               "  paceline profile --steps --model lenet --dataset mnist-5k --json");
  command->callback([asked, &chosen] { chosen.run = [asked] { return run(*asked); }; });
}

}  // namespace paceline::cli
