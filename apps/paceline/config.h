// `--config FILE`: the options of a command from a TOML file. Its keys are the long names of that command's options, with dashes or
// underscores: `mini-batch = 16`; true or false for a flag; an array for a list. What stands on the command line wins.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/command.h"

namespace paceline::cli {

// Adds the option to every command of `app`. Call when all commands are there.
void add_config_option(CLI::App& app);

struct Arguments {
  std::vector<std::string> words;              // of the command line, without the program's name
  std::map<std::string, std::string> origins;  // "--mini-batch" -> "job.toml:3", of those that a file gave
};

// The file that was given to `command`, once it is parsed; "": none.
std::string config_file_of(const CLI::App& command);

// The command line `words` with the options of its --config file, if it has one, put behind the command's name; those that the
// command line gives itself, or an alternative to them, are left out. Errors: kBadRequest that names file, line and key: a file
// that cannot be read or parsed, a key that is no option of that command (with the nearest one that is), a value that no option can
// have.
Result<Arguments> with_config(const CLI::App& app, std::vector<std::string> words);

// `status` with the place in the file behind its sentence, when its subject is an option that a file gave.
Status with_origin(const Status& status, const std::map<std::string, std::string>& origins);

}  // namespace paceline::cli
