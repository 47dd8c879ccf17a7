// `paceline help [COMMAND...]`, `paceline help environment`, `paceline help codes` and `paceline help PL-CODE`.
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error_pages.h"
#include "base/text.h"
#include "paceline/command.h"
#include "paceline/environment.h"
#include "paceline/help_text.h"
#include "report/error_pages_json.h"

namespace paceline::cli {
namespace {

constexpr const char* kEnvironment = "environment";
constexpr const char* kCodes = "codes";
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

void print_codes(bool as_json) {
  if (as_json) {
    fmt::print("{}\n", report::error_pages_json().dump());
    return;
  }
  fmt::print("Codes of errors; 'paceline help CODE' shows what to do:\n\n");
  for (const ErrorPage& page : error_pages()) fmt::print("  {:<18}  {}\n", shown_code(page.code), page.title);
}

// A paragraph of a page, whose `commands` are quoted here.
void print_paragraph(std::string_view heading, std::string_view text) {
  std::string quoted = fmt::format("{}{}", heading, text);
  std::ranges::replace(quoted, '`', '\'');
  fmt::print("\n{}\n", fmt::join(wrapped(quoted, columns()), "\n"));
}

int print_page(const std::string& topic) {
  const std::string code = code_shown_as(topic);
  const ErrorPage* const page = error_page_of(code);
  if (page == nullptr) {
    std::vector<std::string> shown;
    for (const ErrorPage& one : error_pages()) shown.push_back(shown_code(one.code));
    return report_error(error(ErrorKind::kBadRequest, "there is no code '{}'{}; 'paceline help codes' lists them", topic,
                              suggestion(shown_code(code), shown))
                            .because({"unknown", topic}));
  }
  fmt::print("{}: {}\n", shown_code(code), page->title);
  print_paragraph("", page->means);
  print_paragraph("How to check: ", page->check);
  print_paragraph("What to do: ", page->remedy);
  return kDone;
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
  if (options.topic.size() == 1 && options.topic[0] == kCodes) {
    print_codes(options.json);
    return kDone;
  }
  if (options.json)
    return report_error(error(ErrorKind::kBadRequest,
                              "--json is for 'paceline help environment' and 'paceline help codes'; the help of commands is text")
                            .because({"contradiction", ""}));
  if (options.topic.size() == 1 && !code_shown_as(options.topic[0]).empty()) return print_page(options.topic[0]);
  const CLI::App* reached = &app;
  for (const std::string& name : options.topic) {
    const CLI::App* next = nullptr;
    std::vector<std::string> legal;
    for (const CLI::App* command : named_commands(*reached)) {
      if (command->get_name() == name) next = command;
      legal.push_back(command->get_name());
    }
    if (reached == &app) legal.insert(legal.end(), {kEnvironment, kCodes});
    if (next == nullptr) {
      return report_error(error(ErrorKind::kBadRequest, "there is no help on '{}'{}; legal: {}", fmt::join(options.topic, " "),
                                suggestion(name, legal),
                                legal.empty() ? "nothing below " + path_of(*reached) : fmt::format("{}", fmt::join(legal, ", ")))
                              .because({"unknown", ""}));
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
  CLI::App* help = app.add_subcommand(
      "help", "Show the help of a command, what to do about an error, or the environment variables that are read");
  const auto options = std::make_shared<Options>();
  help->add_option("topic", options->topic,
                   "a command (plan slice), with 'all' behind it for the options for experts too, the code of an error "
                   "(PL-PORT-IN-USE), 'codes' or 'environment'; default: all commands");
  help->add_flag("--json", options->json,
                 "with 'environment': one JSON array of {name, purpose, value or null}; with 'codes': of {code, shown, title, "
                 "means, check, remedy}");
  set_examples(*help,
               "  paceline help train\n"
               "  paceline help train all\n"
               "  paceline help PL-PORT-IN-USE\n"
               "  paceline help environment");
  help->callback([&app, options, &chosen, &text] { chosen.run = [&app, options, &text] { return run(app, *options, text); }; });
}

}  // namespace paceline::cli
