#include "base/shorten.h"

#include "base/status.h"

namespace paceline {
namespace {

constexpr std::string_view kLeftOut = " ... ";

bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  PACELINE_CHECK(most >= 64, "a sentence of {} bytes", most);
  if (text.size() <= most) return std::string(text);
  std::size_t begin = most / 4;
  while (begin > 0 && !begins_letter(text[begin])) --begin;
  std::size_t end = text.size() - (most - begin - kLeftOut.size());
  while (end < text.size() && !begins_letter(text[end])) ++end;
  return std::string(text.substr(0, begin)).append(kLeftOut).append(text.substr(end));
}

}  // namespace paceline
