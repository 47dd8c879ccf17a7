// Commands that are programs of their own beside `paceline`, so that a job needs nothing of them: `paceline bench` becomes
// paceline-bench. They get the same words, and signals and exit codes are theirs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/command.h"

namespace paceline::cli {

// Becomes the program that `words` (bench ..., help bench ...) are for; then it does not return. Nothing when they are for
// `paceline` itself. The exit code after it has said why the program cannot be started.
std::optional<int> become_other_program(const std::vector<std::string>& words);

// Their names in help and suggestions.
void add_other_programs(CLI::App& app, Chosen& chosen);

}  // namespace paceline::cli
