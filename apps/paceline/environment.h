// The only place where the program reads environment variables: the list below is what `paceline help environment` prints.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace paceline::cli
