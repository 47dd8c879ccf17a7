#include "base/error_line.h"

#include "base/error_pages.h"

namespace paceline {
namespace {

constexpr std::string_view kOpen = " [paceline help ", kClose = "]";

// What somebody typed may hold the end of a line; an error is one line.
std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char letter : text) {
    if (letter == '\n')
      line += "\\n";
    else if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    else
      line += letter;
  }
  return line;
}

}  // namespace

std::string error_line(const Status& status) {
  const std::string code = error_page_of(status.code()) != nullptr ? status.code() : code_of(status.kind());
  return fmt::format("{}{}{}{}{}", kErrorMark, in_one_line(status.message()), kOpen, shown_code(code), kClose);
}

std::optional<SaidError> read_error_line(std::string_view line) {
  if (!line.starts_with(kErrorMark)) return std::nullopt;
  line.remove_prefix(kErrorMark.size());
  const std::size_t at = line.rfind(kOpen);
  if (at == std::string_view::npos || !line.ends_with(kClose)) return SaidError{std::string(line), ""};
  const std::string_view shown = line.substr(at + kOpen.size(), line.size() - at - kOpen.size() - kClose.size());
  const std::string code = code_shown_as(shown);
  if (error_page_of(code) == nullptr) return SaidError{std::string(line), ""};
  return SaidError{std::string(line.substr(0, at)), code};
}

std::string without_code(std::string_view line) {
  const auto said = read_error_line(line);
  return said ? fmt::format("{}{}", kErrorMark, said->sentence) : std::string(line);
}

}  // namespace paceline
