// `paceline help [COMMAND...]` and `paceline help environment`.
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "paceline/command.h"
#include "paceline/environment.h"
#include "paceline/help_text.h"

namespace paceline::cli {
namespace {

constexpr const char* kEnvironment = "environment";
constexpr const char* kAll = "all";

struct Options {
  std::vector<std::string> topic;
  bool json = false;
};

void print_environment(bool as_json) {
  if (as_json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& variable : environment_variables())
      json.push_back({{"name", variable.name}, {"purpose", variable.purpose}, {"value", nullptr}});
    for (auto& entry : json) {
      if (const auto value = environment(entry["name"].get<std::string>())) entry["value"] = *value;
    }
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("Environment variables that paceline reads:\n\n");
  std::size_t width = 0;
  for (const auto& variable : environment_variables()) width = std::max(width, variable.name.size());
  for (const auto& variable : environment_variables()) fmt::print("  {:<{}}  {}\n", variable.name, width, variable.purpose);
}

int run(const CLI::App& app, Options options, HelpText& text) {
  if (!options.topic.empty() && options.topic.back() == kAll) {
    options.topic.pop_back();
    text.show_all();
  }
  if (options.topic.size() == 1 && options.topic[0] == kEnvironment) {
    print_environment(options.json);
    return kDone;
  }
  if (options.json)
    return report_error(error(ErrorKind::kBadRequest, "--json is for 'paceline help environment'; the help of commands is text"));
  const CLI::App* reached = &app;
  for (const std::string& name : options.topic) {
    const CLI::App* next = nullptr;
    std::vector<std::string> legal;
    for (const CLI::App* command : named_commands(*reached)) {
      if (command->get_name() == name) next = command;
      legal.push_back(command->get_name());
    }
    if (reached == &app) legal.emplace_back(kEnvironment);
    if (next == nullptr) {
      return report_error(error(ErrorKind::kBadRequest, "there is no help on '{}'{}; legal: {}", fmt::join(options.topic, " "),
                                suggestion(name, legal),
                                legal.empty() ? "nothing below " + path_of(*reached) : fmt::format("{}", fmt::join(legal, ", "))));
    }
    reached = next;
  }
  // Not App::help(), which shows the help of the command that was parsed: this one.
  const std::string name = reached == &app ? app.get_name() : path_of(*reached);
  fmt::print("{}", reached->get_formatter()->make_help(reached, name, CLI::AppFormatMode::Normal));
  return kDone;
}

}  // namespace

void add_help(CLI::App& app, Chosen& chosen, HelpText& text) {
  CLI::App* help = app.add_subcommand("help", "Show the help of a command, or the environment variables that are read");
  const auto options = std::make_shared<Options>();
  help->add_option(
      "topic", options->topic,
      "a command (plan slice), with 'all' behind it for the options for experts too, or 'environment'; default: all commands");
  help->add_flag("--json", options->json, "with 'environment': one JSON array of {name, purpose, value or null}");
  set_examples(*help,
               "  paceline help train\n"
               "  paceline help train all\n"
               "  paceline help environment");
  help->callback([&app, options, &chosen, &text] { chosen.run = [&app, options, &text] { return run(app, *options, text); }; });
}

}  // namespace paceline::cli
