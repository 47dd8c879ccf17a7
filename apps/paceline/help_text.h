// How --help looks: as wide as the terminal, and without the options for experts unless they are asked for.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "paceline/command.h"

namespace paceline::cli {

// The group of the options that only --help all shows.
inline constexpr const char* kForExperts = "For experts";

// Of the terminal that is written to, 60 to 140; 100 where there is none.
std::size_t columns();

// Lines of at most `width` letters; a word that is longer has a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

class HelpText : public CLI::Formatter {
 public:
  void show_all() { all_ = true; }
  // Takes "all" out of "--help all", and shows all then.
  void read(std::vector<std::string>& words);

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override;
  std::string make_expanded(const CLI::App* group) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;

 private:
  std::string groups(const CLI::App* app) const;
  std::string entry(const std::string& name, const std::string& description) const;

  std::size_t width_ = columns();
  bool all_ = false;
};

// `paceline help`, which shows the same.
void add_help(CLI::App& app, Chosen& chosen, HelpText& text);

}  // namespace paceline::cli
