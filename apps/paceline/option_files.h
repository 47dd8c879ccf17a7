// Files that options name.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "base/files.h"

namespace paceline::cli {

// What `option` ("--config") may read at most, unless it says otherwise.
inline constexpr Bytes kLargestInput{std::int64_t{256} << 20};

// For CLI11: an empty name is that of a variable that is not set, and not a wish for none.
std::string not_empty(const std::string& text);

// All of the file. kBadRequest naming the option: it is none, cannot be read, or is too large.
Result<std::string> read_option(const char* option, const std::string& path, Bytes limit = kLargestInput);

// Refuses "-", which means standard output elsewhere.
Status check_output_name(const char* option, const std::string& path);
using NamedFiles = std::initializer_list<std::pair<const char*, std::string>>;  // by option; "": not given
// The same of several options, none of which may name a file of another one or of `read`; devices and pipes may be named twice.
Status check_output_names(NamedFiles written, NamedFiles read);
// Whether the file could be written now; "" is well. kBadRequest naming the option.
Status check_output(const char* option, const std::string& path);

}  // namespace paceline::cli
