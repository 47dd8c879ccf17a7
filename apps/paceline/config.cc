#include "paceline/config.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include <toml++/toml.h>

#include "base/text.h"
#include "base/wrong.h"
#include "paceline/option_files.h"

namespace paceline::cli {
namespace {

constexpr const char* kConfig = "--config";

// Two options that say the same thing in two ways: one on the command line wins over the other in the file.
const std::map<std::string, std::string> kAlternatives = {{"iterations", "epochs"}, {"epochs", "iterations"}};

// Long names, without dashes, of what a file may give.
std::vector<std::string> legal_keys(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : all_options(command)) {
    for (const std::string& name : option->get_lnames()) {
      if (name != "help" && name != "version" && name != "config") names.push_back(name);
    }
  }
  return names;
}

struct Given {
  std::optional<std::string> file;
  std::set<std::string> names;  // options on the command line, without dashes
  bool help = false;
};

Result<Given> given_on_command_line(const std::vector<std::string>& words) {
  Given given;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word == "-h") given.help = true;
    if (word.rfind("--", 0) != 0) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (name == "help") given.help = true;
    if (name == "config") {
      if (given.file)
        return error(ErrorKind::kBadRequest, "--config is given twice; give one file").because({"contradiction", "--config"});
      if (equals == std::string::npos && i + 1 == words.size())
        return error(ErrorKind::kBadRequest, "--config needs the name of a TOML file").because({"missing", "--config"});
      given.file = equals == std::string::npos ? words[++i] : word.substr(equals + 1);
    } else {
      given.names.insert(name);
    }
  }
  return given;
}

// A name of so many parts is a mistake, and the parser would descend as deep as there are dots.
Status check_names(const std::string& path, const std::string& text) {
  constexpr std::int64_t kMostDots = 1000;
  std::int64_t line = 1, dots = 0;
  for (const char letter : text) {
    if (letter == '\n') ++line;
    if (letter == '.' && ++dots > kMostDots)
      return error(ErrorKind::kBadRequest, "--config {}, line {}: more than {} dots in one name or value", path, line, kMostDots)
          .because({"format", ""});
    if (std::string_view("\n=,[]{}").find(letter) != std::string_view::npos) dots = 0;
  }
  return {};
}

Result<toml::table> parsed(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_option(kConfig, path, Bytes{1 << 20}));
  PACELINE_RETURN_IF_ERROR(check_names(path, text));
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& problem) {
    return error(ErrorKind::kBadRequest, "--config {}, line {}, column {}: {}", path, problem.source().begin.line,
                 problem.source().begin.column, problem.description())
        .because({"format", ""});
  }
}

// A single value as it would be typed; nothing for what cannot be typed (tables, dates).
std::optional<std::string> typed(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return std::nullopt;
}

std::optional<std::string> typed_list(const toml::array& array) {
  std::string joined;
  for (const toml::node& element : array) {
    const auto text = typed(element);
    if (!text) return std::nullopt;
    joined += (joined.empty() ? "" : ",") + *text;
  }
  return joined;
}

// What to put on the command line for `--name`: nothing for a flag that is false.
Result<std::vector<std::string>> words_for(const CLI::Option& option, const std::string& name, const toml::node& node,
                                           const std::string& place) {
  if (is_flag(option)) {
    if (const auto* value = node.as_boolean())
      return value->get() ? std::vector<std::string>{"--" + name} : std::vector<std::string>{};
    return error(ErrorKind::kBadRequest, "{}: {} is a flag; legal: true, false", place, name).because({"illegal", ""});
  }
  if (node.is_boolean())
    return error(ErrorKind::kBadRequest, "{}: {} takes a value, not true or false", place, name).because({"illegal", ""});
  const auto value = node.is_array() ? typed_list(*node.as_array()) : typed(node);
  if (!value)
    return error(ErrorKind::kBadRequest, "{}: {} is no value of an option; legal: a string, a number, or an array of these", place,
                 name)
        .because({"illegal", ""});
  // An empty value would be taken for a missing one behind '='; behind a space, '-' would be taken for an option.
  if (value->empty()) return std::vector<std::string>{"--" + name, ""};
  return std::vector<std::string>{"--" + name + "=" + *value};
}

struct Entry {
  std::string key, name;  // as written, and with dashes
  const toml::node* node;
  toml::source_index line;
};

std::vector<Entry> entries_by_line(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    std::ranges::replace(name, '_', '-');
    entries.push_back({std::string(key.str()), std::move(name), &node, key.source().begin.line});
  }
  std::ranges::stable_sort(entries, {}, &Entry::line);
  return entries;
}

}  // namespace

void add_config_option(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App* one) { return !one->get_name().empty(); })) {
    // Read before parsing; here only so that it is legal and stands in --help.
    command
        ->add_option_function<std::string>(
            kConfig, [](const std::string&) {}, "TOML file with options of this command (mini-batch = 16); the command line wins")
        ->option_text("FILE");
    add_config_option(*command);
  }
}

std::string config_file_of(const CLI::App& command) {
  return command.count(kConfig) > 0 ? command.get_option(kConfig)->as<std::string>() : std::string();
}

Result<Arguments> with_config(const CLI::App& app, std::vector<std::string> words) {
  const Reached reached = reached_command(app, words);
  if (reached.command == &app) return Arguments{std::move(words), {}};  // main says what is missing
  PACELINE_ASSIGN_OR_RETURN(const Given given, given_on_command_line(words));
  if (!given.file || given.help) return Arguments{std::move(words), {}};
  PACELINE_ASSIGN_OR_RETURN(const toml::table table, parsed(*given.file));

  Arguments arguments;
  std::vector<std::string> inserted;
  std::map<std::string, toml::source_index> seen;
  for (const Entry& entry : entries_by_line(table)) {
    const std::string place = fmt::format("--config {}, line {}", *given.file, entry.line);
    const auto legal = legal_keys(*reached.command);
    if (entry.node->is_table()) {
      return error(ErrorKind::kBadRequest, "{}: '{}' is a section; options stand at the top of the file, without one", place,
                   entry.key);
    }
    if (std::ranges::find(legal, entry.name) == legal.end()) {
      return error(ErrorKind::kBadRequest, "{}: '{}' is no option of '{}'{}; see '{} --help'", place, entry.key,
                   path_of(*reached.command), suggestion(entry.name, legal), path_of(*reached.command))
          .because({"unknown", ""});
    }
    if (const auto [first, is_new] = seen.emplace(entry.name, entry.line); !is_new) {
      return error(ErrorKind::kBadRequest, "{}: '{}' stands in line {} already, with dashes or underscores", place, entry.key,
                   first->second)
          .because({"contradiction", ""});
    }
    PACELINE_ASSIGN_OR_RETURN(const auto more,
                              words_for(*option_named(*reached.command, entry.name), entry.name, *entry.node, place));
    const auto alternative = kAlternatives.find(entry.name);
    if (given.names.contains(entry.name) || (alternative != kAlternatives.end() && given.names.contains(alternative->second)))
      continue;
    inserted.insert(inserted.end(), more.begin(), more.end());
    arguments.origins["--" + entry.name] = fmt::format("{}:{}", *given.file, entry.line);
  }
  words.insert(words.begin() + static_cast<std::ptrdiff_t>(reached.begin), inserted.begin(), inserted.end());
  arguments.words = std::move(words);
  return arguments;
}

Status with_origin(const Status& status, const std::map<std::string, std::string>& origins) {
  const auto place = origins.find(status.subject());
  if (place == origins.end()) return status;
  return Status(status.kind(), fmt::format("{} (given in {})", status.message(), place->second), cause_of(status));
}

}  // namespace paceline::cli
