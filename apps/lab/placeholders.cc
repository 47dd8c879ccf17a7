#include "lab/placeholders.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/text.h"
#include "lab/script.h"

namespace paceline::cli {
namespace {

std::string all_addresses(int hosts) {
  std::string text;
  for (int host = 0; host < hosts; ++host) text += (host == 0 ? "" : ",") + lab::address(host);
  return text;
}

// Of braces that are none of ours, but look as if they were meant to be; a shell's own ({1..3}, {a,b}, ${x}) do not.
Status check_meant(std::string_view before, std::string_view name) {
  static const std::vector<std::string> ours = {"host", "hosts", "address", "addresses"};
  static const std::vector<std::string> elsewhere = {"rank", "ranks", "node", "nodes", "ip", "id", "index", "size", "world_size"};
  if (before.ends_with('$')) return {};
  const std::string word(name.substr(0, name.find(':')));
  const bool known = std::ranges::find(elsewhere, word) != elsewhere.end();
  const std::string near = nearest(word, ours);
  if (near.empty() && !known) return {};
  return error(ErrorKind::kBadRequest,
               "{{{}}} means nothing to a lab{}; legal: {{host}}, {{hosts}}, {{address}}, {{address:K}}, {{addresses}}", name,
               near.empty() || near == word ? "" : fmt::format(" (did you mean '{{{}}}'?)", near))
      .because({"illegal", std::string(name)});
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
      PACELINE_RETURN_IF_ERROR(check_meant(text.substr(0, open), name));
      filled += text.substr(open, close - open + 1);
    }
    text.remove_prefix(close + 1);
  }
  return filled + std::string(text);
}

}  // namespace paceline::cli
