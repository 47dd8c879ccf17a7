#include "paceline/profile/profile.h"

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/option_files.h"
#include "paceline/within.h"

namespace paceline::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000, kMostRounds = 1000;

// What is measured: without a flag the layers of a network, else what the flag says.
enum Mode : unsigned { kLayers = 1, kConvolutions = 2, kSteps = 4, kMemory = 8, kLink = 16 };
struct ModeFlag {
  Mode mode;
  const char* name;
  const char* help;
  int (*run)(const ProfileOptions&);
};
constexpr ModeFlag kModes[] = {
    {kLayers, "Without a flag", "", profile_layers},
    {kConvolutions, "--convolutions",
     "Time and workspace of each convolution with each algorithm, the rest of a step and its memory; kept for 'paceline plan job'",
     profile_convolutions},
    {kSteps, "--steps",
     "The phases of real training iterations and the overhead R_O, with and without reading ahead; kept for 'paceline plan job'",
     profile_steps},
    {kMemory, "--memory",
     "The most memory of one step beside the formula of 'paceline plan memory', for --model, or for every network that fits",
     profile_memory},
    {kLink, "--link",
     "Only the link: what a transfer costs to start and the bytes/s after that, fitted over transfers of several sizes",
     profile_link},
};

std::string names_of(unsigned modes, bool flags_only) {
  std::vector<std::string> names;
  for (const ModeFlag& one : kModes) {
    if ((modes & one.mode) != 0 && !(flags_only && one.mode == kLayers)) names.emplace_back(one.name);
  }
  return fmt::format("{}", fmt::join(names, flags_only ? " or " : ", "));
}

// The options of a command, each with the modes that it is for.
class ModeOptions {
 public:
  explicit ModeOptions(CLI::App& command) : command_(command) {
    for (const ModeFlag& one : kModes) {
      if (one.mode == kLayers) continue;
      CLI::Option* flag = command.add_flag(one.name, one.help);
      for (const auto& [other, mode] : flags_) flag->excludes(other);
      flags_.emplace_back(flag, &one);
    }
  }

  template <class T>
  CLI::Option* add(const char* name, T& value, unsigned modes, const std::string& help) {
    CLI::Option* option = command_.add_option(name, value, fmt::format("{}: {}", names_of(modes, false), help));
    if constexpr (std::is_same_v<T, std::string>) option->check(not_empty);
    uses_.emplace_back(option, modes);
    return option;
  }
  CLI::Option* add_flag(const char* name, bool& value, unsigned modes, const std::string& help) {
    CLI::Option* flag = command_.add_flag(name, value, fmt::format("{}: {}", names_of(modes, false), help));
    uses_.emplace_back(flag, modes);
    return flag;
  }
  // --help of an option of nearly all modes says it in its own words.
  void only(unsigned modes, CLI::Option* option) { uses_.emplace_back(option, modes); }

  const ModeFlag& mode() const {
    for (const auto& [flag, mode] : flags_) {
      if (flag->count() > 0) return *mode;
    }
    return kModes[0];
  }

  // An option that this mode would not look at is refused.
  Status check() const {
    const ModeFlag& chosen = mode();
    for (const auto& [option, modes] : uses_) {
      if (option->count() == 0 || (modes & chosen.mode) != 0) continue;
      const std::string name = option->get_name();
      if (chosen.mode == kLayers)
        return error(ErrorKind::kBadRequest, "{0} is for {1}; give {2}, or leave {0} out", name, names_of(modes, true),
                     std::popcount(modes) == 1 ? "it" : "one of them");
      return error(ErrorKind::kBadRequest, "{} has nothing to say to {}; leave one of them out", name, chosen.name);
    }
    return {};
  }

 private:
  CLI::App& command_;
  std::vector<std::pair<CLI::Option*, const ModeFlag*>> flags_;
  std::vector<std::pair<CLI::Option*, unsigned>> uses_;
};

struct Asked {
  ProfileOptions options;
  std::optional<ModeOptions> modes;
};

int run(const Asked& asked) {
  const Status checked = asked.modes->check();
  return checked.ok() ? asked.modes->mode().run(asked.options) : report_error(checked);
}

void add_step_options(ModeOptions& modes, ProfileOptions& options) {
  within(modes.add("--mini-batches", options.mini_batches, kConvolutions,
                   "sizes to measure, separated by commas (default 8,16,32,64)"),
         1, kMost)
      ->delimiter(',');
  modes.add("--dataset", options.dataset, kSteps, "data set (default: made up for the model)");
  within(modes.add("--mini-batch", options.mini_batch, kLayers | kSteps | kMemory, "samples per iteration"), 1, kMost)
      ->capture_default_str();
  within(modes.add("--iterations", options.iterations, kSteps, "of each run"), 2, kMost)->capture_default_str();
  within(modes.add("--rounds", options.rounds, kLayers | kConvolutions,
                   "steps that count, after two that warm up; of convolutions, steps with each algorithm"),
         1, kMostRounds)
      ->capture_default_str();
  modes.add("--limit", options.limit, kLayers, "begin no step that would end after this time, once one counts, as 60s")
      ->option_text("TIME");
}

void add_link_options(ModeOptions& modes, ProfileOptions& options) {
  modes
      .add("--server", options.server, kLayers | kLink,
           "other end of the link, HOST or HOST:PORT where 'paceline doctor --serve' runs (default: one of its own on the "
           "loopback)")
      ->option_text("ADDRESS");
  modes.add("--bandwidth", options.bandwidth, kLayers, "with --start-up, rate of a link that is not measured, as 1gbit or 125MB/s")
      ->option_text("RATE");
  modes.add("--start-up", options.start_up, kLayers, "start-up time of a transfer over it, as 200us")->option_text("TIME");
  within(modes.add("--nodes", options.nodes, kLayers, "number of nodes, handed on to 'plan iteration'"), 1, kMost)
      ->capture_default_str();
}

}  // namespace

void add_profile(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure what 'paceline plan' asks for; without a flag, how long each layer of a network computes and travels");
  const auto asked = std::make_shared<Asked>();
  ProfileOptions& options = asked->options;
  ModeOptions& modes = asked->modes.emplace(*command);
  modes.add("--record", options.record, kLayers, "write the layers as a table for 'paceline train --model replay:FILE'")
      ->option_text("FILE");
  modes.only(~unsigned{kLink}, command->add_option("--model", options.model, "Network; 'paceline models' lists them")
                                   ->capture_default_str()
                                   ->each([asked](const std::string&) { asked->options.model_given = true; }));
  add_step_options(modes, options);
  add_link_options(modes, options);
  modes.add_flag("--again", options.again, kConvolutions, "measure also what has been measured on this machine before");
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
