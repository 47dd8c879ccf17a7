// A program of the command line: parses, runs the chosen command, and turns every failure into one line and an exit code.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "paceline/command.h"

namespace paceline::cli {

using AddCommand = void (*)(CLI::App& app, Chosen& chosen);

// `words`: the command line without the program's name. `help` is added to the commands.
int run_program(std::span<const AddCommand> commands, const std::vector<std::string>& words);

// The program of one command, paceline-COMMAND, that `paceline COMMAND` starts with its own words; people may leave out the
// command's name.
int run_program_of(const std::string& command, AddCommand add, int argc, char** argv);

}  // namespace paceline::cli
