// A sentence that is too long for its place: its beginning says who and what, its end why, so the middle is left out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

// At most `most` bytes, at least 64, cut between letters of UTF-8.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace paceline
