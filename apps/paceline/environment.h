// The only place where the program reads environment variables: the list below is what `paceline help environment` prints.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cli {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view purpose;
};
std::span<const EnvironmentVariable> environment_variables();

// The variable's value, or nothing when it is not set or empty. Aborts for a name that is not in the list.
std::optional<std::string> environment(std::string_view name);
// Of a variable that means nothing here and is handed on to a user's program; an empty value is one.
std::optional<std::string> variable_of_others(const std::string& name);
// Names of this process's variables that begin so, but for those that say who has logged in where.
std::vector<std::string> variables_of_others(const std::string& prefix);
// "NAME=VALUE" for a user's program, where this process's own variables do not say otherwise: a script's lines appear when it
// prints them, and it computes with `threads`; 0: with as many as it likes.
std::vector<std::string> variables_for_programs(int threads);

}  // namespace paceline::cli
