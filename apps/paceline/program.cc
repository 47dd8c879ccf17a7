#include "paceline/program.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/text.h"
#include "paceline/config.h"
#include "paceline/help_text.h"
#include "paceline/other_words.h"
#include "report/report.h"

namespace paceline::cli {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : named_commands(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : all_options(app)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Of a number: CLI11 would take "" for 0, and 010 for eight.
std::string as_meant(const CLI::Option& option, std::string text) {
  const std::string name = option.get_name(), type = option.get_type_name();
  const bool whole = type.starts_with("UINT") || type.starts_with("INT");
  if (!whole && !type.starts_with("FLOAT")) return text;
  if (text.empty()) throw OptionError(Status(ErrorKind::kBadRequest, name + " needs a value", {"illegal", name}));
  const std::size_t first = text[0] == '-' || text[0] == '+' ? 1 : 0;
  const bool digits = first < text.size() && text.find_first_not_of("0123456789", first) == std::string::npos;
  if (!whole || !digits) return text;
  const std::size_t significant = text.find_first_not_of('0', first);
  return text.substr(0, first) + (significant == std::string::npos ? "0" : text.substr(significant));
}

// CLI11's exceptions do not say which option they are about. It reads options one after the other, so that is the one read last.
class LastRead {
 public:
  // Before parsing.
  void watch(CLI::App& command) {
    for (CLI::Option* option : command.get_options()) {
      option->transform([this, option](const std::string& value) {
        option_ = option;
        return as_meant(*option, value);
      });
    }
    for (CLI::App* below : command.get_subcommands({})) watch(*below);
  }
  const CLI::Option* option() const { return option_; }

 private:
  const CLI::Option* option_ = nullptr;
};

// "Could not convert: --workers = many" says neither what is wrong with it nor what is legal.
std::string conversion_error(const CLI::Option& option) {
  if (option.get_expected_max() == 0)
    return fmt::format("{} takes no value, so '{}' means nothing", option.get_name(), fmt::join(option.results(), ","));
  return fmt::format("{} cannot be '{}'; legal: a {}number within the option's range", option.get_name(),
                     fmt::join(option.results(), ","), option.get_type_name() == "FLOAT" ? "" : "whole ");
}

// CLI11's words for options that lack something, or have too much of it, are for whoever declares them.
std::string in_our_words(const CLI::ParseError& problem) {
  const std::string said = problem.what();
  const auto holds = [&](const char* words) { return said.find(words) != std::string::npos; };
  const std::string subject = said.substr(0, said.find(':'));
  if (holds(": At Most 1 required")) return subject + " was given more than once; give it once";
  if (holds(" required ") && holds(" missing")) return subject + " needs a value";
  if (const auto at = said.rfind(" is required"); at != std::string::npos) return said.substr(0, at) + " is missing";
  return said;
}

// The command that has an option, for whoever gave it to another one.
std::string elsewhere(const CLI::App& app, const std::string& option) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_option_no_throw(option) != nullptr) return fmt::format(", which '{}' has", path_of(*command));
  }
  return {};
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0);
}

// Of an option that `reached` does not have: what was meant.
std::string meant_option(const CLI::App& app, const CLI::App& reached, const std::string& name) {
  const auto has = [&](const std::string& option) { return reached.get_option_no_throw(option) != nullptr; };
  if (std::string known = other_word(reached.get_name(), name, has); !known.empty()) return known;
  const std::vector<std::string> own = option_names(reached);
  const std::string near = nearest(name, own);  // a letter too few or too many at its end is a slip, whoever has such an option
  const bool slip = !near.empty() && (near.starts_with(name) || name.starts_with(near));
  if (std::string command = elsewhere(app, name); !slip && !command.empty()) return command;
  return suggestion(name, own);
}

// Of `extra` behind the value of an option, such as 2 in --machines 1 2 4.
std::string list_hint(const CLI::App& reached, const std::vector<std::string>& words, const std::string& extra) {
  const auto found = std::ranges::find(words, extra);
  auto begin = found;
  while (begin != words.begin() && !is_option(*(begin - 1))) --begin;
  if (found == words.end() || begin == words.begin() || begin == found) return {};
  const CLI::Option* option = reached.get_option_no_throw(*(begin - 1));
  if (option == nullptr || option->get_expected_max() == 0) return {};
  const auto end = std::find_if(found, words.end(), is_option);
  return fmt::format("; behind {0} stands one word, and a list has commas and no blanks: {0} {1}", *(begin - 1),
                     fmt::join(begin, end, ","));
}

// CLI11 says that an argument was not expected; a person wants to know which name was meant. The innermost command that was
// reached knows the legal names.
Status usage_error(const CLI::App& app, const CLI::ParseError& problem, const CLI::Option* read,
                   const std::vector<std::string>& words) {
  if (const auto* refused = dynamic_cast<const OptionError*>(&problem)) return refused->status();
  const CLI::App* reached = &app;
  while (!reached->get_subcommands().empty()) reached = reached->get_subcommands().back();
  const bool not_expected = dynamic_cast<const CLI::ExtrasError*>(&problem) != nullptr;
  const bool no_command = dynamic_cast<const CLI::RequiredError*>(&problem) != nullptr;
  if (not_expected || no_command) {
    // The options of a command that does not exist are not what is wrong; the value of an option that does not exist is not either.
    const bool commands_first = !command_names(*reached).empty();
    std::vector<std::string> extras = reached->remaining(true);
    std::stable_partition(extras.begin(), extras.end(),
                          [&](const std::string& extra) { return !is_option(extra) == commands_first; });
    for (const std::string& extra : extras) {
      const bool option = is_option(extra);
      const std::string name = option ? extra.substr(0, extra.find('=')) : extra;
      if (!option && !commands_first) {
        return error(ErrorKind::kBadRequest, "{} takes options, and '{}' is none{}; see '{} --help'", reached->get_display_name(),
                     name, list_hint(*reached, words, extra), path_of(*reached));
      }
      const std::string meant = option ? meant_option(app, *reached, name) : suggestion(name, command_names(*reached));
      return error(ErrorKind::kBadRequest, "{} has no {} '{}'{}; see '{} --help'", reached->get_display_name(),
                   option ? "option" : "command", name, meant, path_of(*reached))
          .because({"unknown", name});
    }
  }
  if (no_command && reached->get_require_subcommand_min() > 0) {
    return error(ErrorKind::kBadRequest, "a command is missing: {}; see '{} --help'", fmt::join(command_names(*reached), ", "),
                 path_of(*reached))
        .because({"missing", ""});
  }
  const std::string said = in_our_words(problem);
  if (no_command) {  // CLI11 has the same word for an option that must be given
    const std::string name = said.substr(0, said.find(' '));
    const CLI::Option* wanted = reached->get_option_no_throw(name);
    return error(ErrorKind::kBadRequest, "{}{}", said, wanted != nullptr ? ": " + wanted->get_description() : "")
        .because({"missing", name});
  }
  const bool no_number = dynamic_cast<const CLI::ConversionError*>(&problem) != nullptr;
  const bool about_value = no_number || dynamic_cast<const CLI::ValidationError*>(&problem) != nullptr;
  return Status(ErrorKind::kBadRequest, no_number && read != nullptr ? conversion_error(*read) : said,
                {"illegal", about_value && read != nullptr ? read->get_name() : ""});
}

Status check_list(const CLI::Option& option, const std::string& list) {
  const std::string fenced = "," + list + ",";
  const auto gap = fenced.find(",,");
  if (list.empty() || gap == std::string::npos) return {};
  const auto entry = std::count(fenced.begin(), fenced.begin() + static_cast<std::ptrdiff_t>(gap) + 1, ',');
  return error(ErrorKind::kBadRequest, "{} {}: entry {} is empty; leave it out", option.get_name(), list, entry)
      .because({"illegal", option.get_name()});
}

// CLI11 drops what is empty in a list ("16,,64").
Status check_lists(const CLI::App& app, const std::vector<std::string>& words) {
  const Reached reached = reached_command(app, words);
  const auto is_option = [](const std::string& word) { return word.rfind("--", 0) == 0; };
  for (std::size_t i = reached.begin; i < words.size() && words[i] != "--"; ++i) {
    if (!is_option(words[i])) continue;
    const std::size_t equals = words[i].find('=');
    const CLI::Option* option =
        option_named(*reached.command, words[i].substr(2, equals == std::string::npos ? equals : equals - 2));
    if (option == nullptr || option->get_delimiter() == '\0') continue;
    if (equals != std::string::npos) PACELINE_RETURN_IF_ERROR(check_list(*option, words[i].substr(equals + 1)));
    for (std::size_t value = i + 1; value < words.size() && !is_option(words[value]); ++value) {
      if (value == i + 1 ? equals == std::string::npos : option->get_allow_extra_args())
        PACELINE_RETURN_IF_ERROR(check_list(*option, words[value]));
    }
  }
  return {};
}

const char* group_of(const std::string& command) {
  for (const char* one : {"train", "run", "models", "datasets", "help"})
    if (command == one) return "Start here";
  for (const char* one : {"coordinator", "key", "doctor", "lab"})
    if (command == one) return "Several machines";
  return "Plan and measure";
}

// Else what is opened next would be taken for standard output.
void fill_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);  // cannot be written, as before
  }
}

int run(std::span<const AddCommand> commands, std::vector<std::string> words) {
  CLI::App app("Paceline trains one network on many workers and hides the communication behind the computation.", "paceline");
  app.set_version_flag("--version", "paceline " PACELINE_VERSION);
  app.require_subcommand(1);
  set_examples(app,
               "  paceline train --model lenet --dataset mnist-5k --workers 4 --servers 2\n"
               "  paceline plan speedup --input vgg19 --bandwidth 10gbit --machines 1,2,4,8");
  const auto help_text = std::make_shared<HelpText>();
  app.formatter(help_text);
  help_text->read(words);

  Chosen chosen;
  for (const AddCommand add : commands) add(app, chosen);
  add_help(app, chosen, *help_text);
  for (const CLI::App* command : named_commands(app)) app.get_subcommand(command->get_name())->group(group_of(command->get_name()));
  add_config_option(app);
  LastRead last_read;
  last_read.watch(app);

  auto arguments = with_config(app, std::move(words));
  if (!arguments.ok()) return report_error(arguments.status());
  if (const Status lists = check_lists(app, arguments->words); !lists.ok())
    return report_error(with_origin(lists, arguments->origins));

  try {
    app.parse(std::vector<std::string>(arguments->words.rbegin(), arguments->words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& problem) {
    return report_error(with_origin(usage_error(app, problem, last_read.option(), arguments->words), arguments->origins));
  }
  return chosen.run();
}

}  // namespace

int run_program(std::span<const AddCommand> commands, const std::vector<std::string>& words) {
  fill_closed_descriptors();
  // A file that reaches the limit of `ulimit -f` is an error of whoever writes it, here and in all processes that this one starts.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(commands, words);
    // What was printed may only now meet a disk that is full.
    const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.flush().good();
    if (code != kDone || printed) return code;
    return report_error(error(ErrorKind::kIo, "standard output cannot be written: what was to stand there is lost"));
  } catch (const std::bad_alloc&) {
    return report_error(Status(ErrorKind::kIo, "there is not enough memory", {"memory", ""}));
  } catch (const std::system_error& refused) {
    const bool limit = refused.code() == std::errc::resource_unavailable_try_again;
    return report_error(
        error(ErrorKind::kIo, "{}{}", refused.what(),
              limit ? ": no thread could be made; look at the limits (ulimit -a) and at the memory that is left" : "")
            .because({limit ? "memory" : "", ""}));
  } catch (const report::Json::type_error& wrong) {
    constexpr int kNoText = 316;
    if (wrong.id != kNoText) return report_error(error(ErrorKind::kIo, "{}", wrong.what()));
    // Texts of options are looked at; what else becomes JSON are names of folders, variables, and words behind --.
    return report_error(
        error(ErrorKind::kBadRequest, "the folder, a variable or a word of the command is no UTF-8 text: {}", wrong.what())
            .because({"illegal", ""}));
  } catch (const std::exception& unexpected) {
    return report_error(error(ErrorKind::kIo, "{}", unexpected.what()));
  }
}

int run_program_of(const std::string& command, AddCommand add, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool whole = !words.empty() && (words[0] == command || words[0] == "help" || words[0] == "--version");
  if (!whole) words.insert(words.begin(), command);
  return run_program(std::span(&add, 1), words);
}

}  // namespace paceline::cli
