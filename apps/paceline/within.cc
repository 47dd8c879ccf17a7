#include "paceline/within.h"

#include <charconv>

#include <fmt/format.h>

namespace paceline::cli {

CLI::Option* within(CLI::Option* option, std::int64_t least, std::int64_t most) {
  return option->check([option, least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = problem == std::errc() && end == text.data() + text.size();
    if (whole && value >= least && value <= most) return "";
    const std::string name = option->get_name();
    const std::string found =
        whole ? fmt::format("is {}; legal:", value) : fmt::format("cannot be '{}'; legal: a whole number,", text);
    throw OptionError(error(ErrorKind::kBadRequest, "{} {} {} to {}", name, found, least, most).because({"illegal", name}));
  });
}

}  // namespace paceline::cli
