// What every command of the program shares: how it is added, how it reports, which exit code an error gets (docs/cli.md).
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace paceline::cli {

enum ExitCode { kDone = 0, kFailed = 1, kWrongRequest = 2, kInterrupted = 130 };

// 2 for kBadRequest, 130 for kCancelled, 1 for everything else.
int exit_code(const Status& status);

// Prints `paceline: error: ...` on standard error, one line, and returns the exit code.
int report_error(const Status& status);

// Prints at once, while something runs that goes on whether or not this can be written.
void say(std::FILE* to, const std::string& text);

// A value that its option refuses; what CLI11 throws for its own refusals, with the status that says all.
class OptionError : public CLI::ParseError {
 public:
  explicit OptionError(const Status& status)
      : CLI::ParseError(status.message(), static_cast<int>(CLI::ExitCodes::ValidationError)), status_(status) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// The command that the command line chose; run after parsing. main owns it.
struct Chosen {
  std::function<int()> run;
};

// Each adds its command(s) to `app`; the callback of a command sets `chosen.run`.
void add_train(CLI::App& app, Chosen& chosen);
void add_run(CLI::App& app, Chosen& chosen);
void add_worker(CLI::App& app, Chosen& chosen);
void add_hosted(CLI::App& app, Chosen& chosen);
void add_coordinator(CLI::App& app, Chosen& chosen);
void add_key(CLI::App& app, Chosen& chosen);
void add_options(CLI::App& app, Chosen& chosen);
void add_plan(CLI::App& app, Chosen& chosen);
void add_profile(CLI::App& app, Chosen& chosen);
void add_models(CLI::App& app, Chosen& chosen);
void add_datasets(CLI::App& app, Chosen& chosen);
void add_timeline(CLI::App& app, Chosen& chosen);
void add_doctor(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);
void add_lab(CLI::App& app, Chosen& chosen);

// The commands below `app` that people may use, without its groups of options.
std::vector<const CLI::App*> named_commands(const CLI::App& app);
// The options of `command`, those in groups too.
std::vector<const CLI::Option*> all_options(const CLI::App& command);
// By its long name without dashes; nullptr: it has none.
const CLI::Option* option_named(const CLI::App& command, const std::string& name);
// The command that a command line names.
struct Reached {
  const CLI::App* command;
  std::size_t begin = 0;  // of the words behind the command's name
};
Reached reached_command(const CLI::App& app, const std::vector<std::string>& words);
// Whether it takes no value.
bool is_flag(const CLI::Option& option);
// "paceline plan slice"
std::string path_of(const CLI::App& command);

// Text shown below the options of --help: examples that work when pasted, one per line.
void set_examples(CLI::App& command, const std::string& examples);

}  // namespace paceline::cli
