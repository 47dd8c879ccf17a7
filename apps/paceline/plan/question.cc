#include "paceline/plan/question.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "base/text.h"
#include "base/wrong.h"
#include "paceline/beside.h"
#include "paceline/option_files.h"
#include "paceline/plan/answer_text.h"
#include "paceline/plan/case_options.h"
#include "planner/questions/ask.h"
#include "planner/questions/cases.h"

namespace paceline::cli {
namespace {

using planner::Beside;
using planner::Cases;
using planner::Choice;
using planner::Key;
using planner::KeyType;
using planner::Question;

// What the options of one `plan` command were set to; shared between CLI11, which writes it, and the run.
struct Given {
  std::string input;
  std::map<std::string, std::string> keys;     // by key name: CLI11 stores here
  std::map<std::string, std::string> choices;  // by choice name
  bool as_json = false;
};

struct Command {
  const Question& question;
  std::unique_ptr<Extension> extension;  // null: none
  Given given;
  CLI::App* app = nullptr;  // owned by its parent
};

const char* metavariable(KeyType type) {
  switch (type) {
    case KeyType::kBytes:
      return "SIZE";
    case KeyType::kRate:
      return "RATE";
    case KeyType::kSeconds:
      return "TIME";
    case KeyType::kNumber:
      return "NUMBER";
    case KeyType::kCount:
      return "COUNT";
    case KeyType::kText:
      return "TEXT";
    case KeyType::kNumbers:
      return "NUMBERS";
    case KeyType::kRates:
      return "RATES";
    case KeyType::kCounts:
      return "COUNTS";
    case KeyType::kJson:
      return "JSON";
  }
  return "VALUE";
}

// Standard input, which may be anything.
Result<std::string> read_standard_input() {
  std::string text;
  char buffer[65536];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) {
    text.append(buffer, count);
    if (text.size() > static_cast<std::size_t>(kLargestInput.count))
      return wrong("--input -: more than {} bytes; at most so many can be handled", kLargestInput.count);
  }
  if (std::ferror(stdin) != 0) return wrong("--input -: {}", std::strerror(errno));
  return text;
}

// Keys whose option was given on the command line.
std::map<std::string, std::string> given_keys(const Command& command) {
  std::map<std::string, std::string> values;
  for (const Key& key : command.question.keys) {
    if (command.app->count(option_name(key.name)) > 0) values[key.name] = command.given.keys.at(key.name);
  }
  return values;
}

Result<Json> chosen_values(const Command& command) {
  Json values = Json::object();
  for (const Choice& choice : command.question.choices) {
    const std::string& value = command.given.choices.at(choice.name);
    PACELINE_ASSIGN_OR_RETURN(values[choice.name], planner::checked_choice(choice, value, option_name(choice.name)));
  }
  return values;
}

// Nothing without --input.
Result<std::optional<std::string>> input_text(const Command& command) {
  if (command.app->count("--input") == 0) return std::optional<std::string>();
  PACELINE_ASSIGN_OR_RETURN(std::string text, command.given.input == "-"
                                                  ? read_standard_input()
                                                  : read_option("--input", file_or_layer_table(command.given.input)));
  if (command.extension) {
    PACELINE_ASSIGN_OR_RETURN(text, command.extension->completed(text));
  }
  return std::optional(std::move(text));
}

Result<Cases> cases_of(const Command& command, const std::optional<std::string>& text,
                       const std::map<std::string, std::string>& options) {
  if (text) {
    for (const Key& key : command.question.keys) {
      if (key.beside == Beside::kInput || !options.contains(key.name)) continue;
      return error(ErrorKind::kBadRequest,
                   "{} cannot be mixed with --input; put '{}' into the JSON, or give every value as an option",
                   option_name(key.name), key.name);
    }
    PACELINE_ASSIGN_OR_RETURN(const Json beside, values_from_options(command.question, options));
    return planner::read_cases(command.question, *text, command.given.input == "-" ? "standard input" : command.given.input,
                               beside);
  }
  if (options.empty()) {
    std::vector<std::string> required;
    for (const Key& key : command.question.keys) {
      if (key.required) required.push_back(option_name(key.name));
    }
    return error(ErrorKind::kBadRequest,
                 "plan {0} got no numbers: give --input FILE (- = standard input){1}{2}; see 'paceline plan {0} --help'",
                 command.question.name, required.empty() ? " or its options" : " or the options ", fmt::join(required, ", "));
  }
  Cases cases;
  PACELINE_ASSIGN_OR_RETURN(Json one, case_from_options(command.question, options));
  cases.cases.push_back(std::move(one));
  return cases;
}

Result<std::vector<Json>> answers_of(const Command& command, const Cases& cases, const Json& choices) {
  std::vector<Json> answers;
  for (std::size_t i = 0; i < cases.cases.size(); ++i) {
    auto answer = planner::answer_to(command.question, cases.cases[i], choices);
    const bool typed = command.app->count("--input") == 0;  // one case, which has no number
    if (!answer.ok()) return typed ? answer.status() : at(fmt::format("case {}", i), answer.status());
    answers.push_back(std::move(answer).value());
  }
  return answers;
}

// The cases with what was measured for them. What is wrong is said before anything is measured.
Result<Cases> complete_cases(const Command& command, const Json& choices) {
  auto options = given_keys(command);
  Extension* const extension = command.extension.get();
  if (extension != nullptr) PACELINE_RETURN_IF_ERROR(extension->check(options, command.app->count("--input") > 0));
  PACELINE_ASSIGN_OR_RETURN(const auto text, input_text(command));
  if (extension == nullptr) return cases_of(command, text, options);
  auto rehearsed = options;
  rehearsed.merge(extension->stand_ins());
  PACELINE_ASSIGN_OR_RETURN(Cases cases, cases_of(command, text, rehearsed));
  PACELINE_RETURN_IF_ERROR(extension->check_count(cases.cases.size()));
  if (rehearsed.size() == options.size()) return cases;
  PACELINE_RETURN_IF_ERROR(answers_of(command, cases, choices).status());
  PACELINE_ASSIGN_OR_RETURN(auto measured, extension->measured(options));
  options.merge(measured);
  return cases_of(command, text, options);
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Status run(const Command& command) {
  PACELINE_ASSIGN_OR_RETURN(const Json choices, chosen_values(command));
  PACELINE_ASSIGN_OR_RETURN(const Cases cases, complete_cases(command, choices));
  PACELINE_ASSIGN_OR_RETURN(std::vector<Json> answers, answers_of(command, cases, choices));
  std::string texts;
  for (std::size_t i = 0; command.extension && i < answers.size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, command.extension->text_of(answers[i]));
    texts += (cases.is_array ? fmt::format("case {}\n", i) : "") + text;
  }
  if (command.extension && !command.given.as_json) {
    print(texts);
  } else if (command.given.as_json) {
    const Json document = cases.is_array ? Json(answers) : answers.front();
    print(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    print(cases.is_array ? answers_table(answers, command.question.units) : answer_text(answers.front(), command.question.units));
  }
  if (std::fflush(stdout) != 0) return error(ErrorKind::kIo, "standard output: {}", std::strerror(errno));
  return {};
}

}  // namespace

void add_question(CLI::App& plan, Chosen& chosen, const Question& asked, const char* examples,
                  std::unique_ptr<Extension> extension) {
  const auto command = std::make_shared<Command>(Command{.question = asked, .extension = std::move(extension)});
  Given& given = command->given;
  CLI::App* app = command->app = plan.add_subcommand(asked.name, asked.purpose);
  app->add_option("--input", given.input,
                  "One case as a JSON object, or an array of cases; - = standard input; or the name of a table that comes along "
                  "(bench/tables), such as vgg19")
      ->option_text("FILE");
  app->add_flag("--json", given.as_json, "Print one JSON document: an object for an object, an array for an array");
  for (const Choice& choice : asked.choices) {
    given.choices[choice.name] = choice.values.front();
    app->add_option(option_name(choice.name), given.choices[choice.name],
                    fmt::format("{}: {} (default {})", choice.help, fmt::join(choice.values, ", "), choice.values.front()))
        ->option_text("NAME");
  }
  for (const Key& key : asked.keys) {
    const std::string name = option_name(key.name);
    std::string as_key = name.substr(2);
    std::ranges::replace(as_key, '-', '_');
    const std::string other_key = as_key == key.name ? "" : "; JSON key: " + key.name;
    app->add_option(name, given.keys[key.name], key.help + other_key + (key.required ? "" : " (optional)"))
        ->option_text(metavariable(key.type))
        ->group("One case by options (JSON keys: the same names with underscores)");
  }
  if (command->extension) command->extension->add_options(*app);
  set_examples(*app, examples);
  app->callback([&chosen, command] {
    chosen.run = [command] {
      const Status status = run(*command);
      return status.ok() ? static_cast<int>(kDone) : report_error(planner::as_refusal(status));
    };
  });
}

}  // namespace paceline::cli
