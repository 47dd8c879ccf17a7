#include "paceline/command.h"

#include <algorithm>
#include <cstdio>

#include "base/error_line.h"

namespace paceline::cli {

int exit_code(const Status& status) {
  if (status.ok()) return kDone;
  switch (status.kind()) {
    case ErrorKind::kBadRequest:
      return kWrongRequest;
    case ErrorKind::kCancelled:
      return kInterrupted;
    default:
      return kFailed;
  }
}

int report_error(const Status& status) {
  std::fprintf(stderr, "%s\n", error_line(status).c_str());
  return exit_code(status);
}

void say(std::FILE* to, const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), to));
  static_cast<void>(std::fflush(to));
}

std::vector<const CLI::App*> named_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty() && !command->get_group().empty(); });
}

std::vector<const CLI::Option*> all_options(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); })) {
    for (const CLI::Option* option : all_options(*group)) options.push_back(option);
  }
  return options;
}

const CLI::Option* option_named(const CLI::App& command, const std::string& name) {
  const auto options = all_options(command);
  const auto found = std::ranges::find_if(options, [&](const CLI::Option* option) { return option->check_lname(name); });
  return found == options.end() ? nullptr : *found;
}

Reached reached_command(const CLI::App& app, const std::vector<std::string>& words) {
  Reached reached{&app, 0};
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    for (const CLI::App* command : named_commands(*reached.command)) {
      if (command->get_name() == words[i]) {
        reached = {command, i + 1};
        break;
      }
    }
  }
  return reached;
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0 || option.get_type_size_max() == 0; }

std::string path_of(const CLI::App& command) {
  return (command.get_parent() == nullptr ? "" : path_of(*command.get_parent()) + " ") + command.get_name();
}

void set_examples(CLI::App& command, const std::string& examples) { command.footer("Examples:\n" + examples); }

}  // namespace paceline::cli
