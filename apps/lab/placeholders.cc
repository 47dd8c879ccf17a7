#include "lab/placeholders.h"

#include <charconv>

#include "lab/script.h"

namespace paceline::cli {
namespace {

std::string all_addresses(int hosts) {
  std::string text;
  for (int host = 0; host < hosts; ++host) text += (host == 0 ? "" : ",") + lab::address(host);
  return text;
}

}  // namespace

Result<std::string> fill_in(std::string_view text, int host, int hosts) {
  constexpr std::string_view kOther = "address:";
  std::string filled;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    const std::size_t close = open == std::string_view::npos ? open : text.find_first_of("{}", open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view name = text.substr(open + 1, close - open - 1);
    filled += text.substr(0, open);
    if (text[close] == '{') {  // the outer of two is none of ours
      filled += text.substr(open, close - open);
      text.remove_prefix(close);
      continue;
    }
    if (name == "host") {
      filled += std::to_string(host);
    } else if (name == "hosts") {
      filled += std::to_string(hosts);
    } else if (name == "address") {
      filled += lab::address(host);
    } else if (name == "addresses") {
      filled += all_addresses(hosts);
    } else if (name.rfind(kOther, 0) == 0) {
      int other = -1;
      const auto [end, problem] = std::from_chars(name.data() + kOther.size(), name.data() + name.size(), other);
      if (problem != std::errc() || end != name.data() + name.size() || other < 0 || other >= hosts)
        return error(ErrorKind::kBadRequest, "{{{}}} names no host; legal: {{address:0}} to {{address:{}}}", name, hosts - 1);
      filled += lab::address(other);
    } else {
      filled += text.substr(open, close - open + 1);
    }
    text.remove_prefix(close + 1);
  }
  return filled + std::string(text);
}

}  // namespace paceline::cli
