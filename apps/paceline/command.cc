#include "paceline/command.h"

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

std::string path_of(const CLI::App& command) {
  return (command.get_parent() == nullptr ? "" : path_of(*command.get_parent()) + " ") + command.get_name();
}

void set_examples(CLI::App& command, const std::string& examples) { command.footer("Examples:\n" + examples); }

}  // namespace paceline::cli
