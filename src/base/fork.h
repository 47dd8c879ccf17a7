// Whether this is the process that something was made in, or a child that was forked from it: there its threads do not exist and
// its locks may be held for ever.
#pragma once

#include <cstdint>

namespace paceline {

// Another number in a process than in those that it was forked from, from the first call on. Any thread; as cheap as reading a
// variable.
std::uint64_t process_generation();

// What a child loses as soon as it is forked: who is at the other end of a socket must see this process end, and not its last
// child; a lock ends with this process.
// Any thread; the descriptor may be closed and used again.
void close_in_children(int descriptor);

}  // namespace paceline
