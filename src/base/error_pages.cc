#include "base/error_pages.h"

#include <algorithm>
#include <vector>

#include "base/error_pages_tables.h"

namespace paceline {
namespace {

constexpr std::string_view kPrefix = "PL-";

char upper(char letter) { return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter; }
char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::vector<ErrorPage> all_pages() {
  std::vector<ErrorPage> all;
  for (const auto& some : {pages_of_requests(), pages_of_processes()}) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace

std::span<const ErrorPage> error_pages() {
  static const std::vector<ErrorPage> all = all_pages();
  return all;
}

const ErrorPage* error_page_of(std::string_view code) {
  const auto pages = error_pages();
  const auto found = std::ranges::find(pages, code, &ErrorPage::code);
  return found == pages.end() ? nullptr : &*found;
}

std::string shown_code(std::string_view code) {
  std::string shown(kPrefix);
  std::ranges::transform(code, std::back_inserter(shown), upper);
  return shown;
}

std::string code_shown_as(std::string_view shown) {
  std::string code;
  std::ranges::transform(shown, std::back_inserter(code), lower);
  constexpr std::string_view kLowerPrefix = "pl-";
  return code.starts_with(kLowerPrefix) ? code.substr(kLowerPrefix.size()) : "";
}

}  // namespace paceline
