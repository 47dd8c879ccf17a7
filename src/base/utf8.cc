#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace paceline {

bool is_utf8(std::string_view text) {
  constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};  // by how many bytes follow the first: fewer would do below
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) continue;
    const std::size_t more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF8 ? 3 : 0;
    if (more == 0 || text.size() - i < more) return false;
    std::uint32_t letter = first & (0x3FU >> more);
    for (const std::size_t end = i + more; i < end; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xC0) != 0x80) return false;
      letter = letter << 6 | (next & 0x3F);
    }
    if (letter < kLeast[more] || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return false;
  }
  return true;
}

}  // namespace paceline
