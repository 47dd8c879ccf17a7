#include "paceline/help_text.h"

#include <algorithm>

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "paceline/command.h"

namespace paceline::cli {
namespace {

constexpr std::size_t kNameColumn = 28, kNarrowest = 60, kWidest = 140, kWithoutTerminal = 100;

// Its own help has the others.
std::string first_sentence(const std::string& description) { return description.substr(0, description.find(". ")); }

bool is_for_experts(const CLI::Option* option) { return option->get_group() == kForExperts; }

}  // namespace

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    if (end < text.size() && text[end] == '\n') lines.emplace_back();
    begin = end + 1;
  }
  return lines;
}

std::size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWithoutTerminal;
  return std::clamp<std::size_t>(size.ws_col, kNarrowest, kWidest);
}

void HelpText::read(std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    if ((words[i] != "--help" && words[i] != "-h") || words[i + 1] != "all") continue;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    show_all();
    return;
  }
}

std::string HelpText::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = fmt::format("{}\n", fmt::join(wrapped(app->get_description(), width_), "\n")) +
                     make_usage(app, std::move(name)) + make_positionals(app) + groups(app) + make_subcommands(app, mode) + "\n" +
                     make_footer(app);
  const auto hidden = std::ranges::count_if(all_options(*app), is_for_experts);
  if (!all_ && hidden > 0) text += fmt::format("\n{} more options, for experts: {} --help all\n", hidden, path_of(*app));
  return text;
}

std::string HelpText::make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const {
  std::string text = group.empty() ? "" : "\n" + group + ":\n";
  for (const CLI::Option* option : options) text += make_option(option, is_positional);
  return text;
}

std::string HelpText::groups(const CLI::App* app) const {
  const bool in_group = app->get_name().empty() && app->get_parent() != nullptr;
  std::string text;
  for (const std::string& group : app->get_groups()) {
    const auto options = app->get_options([&](const CLI::Option* option) {
      if (in_group && option == app->get_help_ptr()) return false;
      return !group.empty() && option->get_group() == group && option->nonpositional() && (all_ || !is_for_experts(option));
    });
    // What is for experts stands with its like.
    if (!options.empty()) text += make_group(in_group ? "" : group, false, options);
  }
  return text;
}

std::string HelpText::make_expanded(const CLI::App* group) const {
  const std::string options = groups(group);
  return options.empty() ? "" : fmt::format("\n{}:\n{}", group->get_group(), options);
}

std::string HelpText::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), first_sentence(command->get_description()));
}

std::string HelpText::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name = make_option_name(option, is_positional) + make_option_opts(option);
  return entry(name, make_option_desc(option));
}

std::string HelpText::entry(const std::string& name, const std::string& description) const {
  constexpr std::size_t kIndent = kNameColumn + 2;
  std::string text = "  " + name;
  text += text.size() + 1 < kIndent ? std::string(kIndent - text.size(), ' ') : "\n" + std::string(kIndent, ' ');
  const auto lines = wrapped(description, width_ - kIndent);
  return fmt::format("{}{}\n", text, fmt::join(lines, "\n" + std::string(kIndent, ' ')));
}

}  // namespace paceline::cli
