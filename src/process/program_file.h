// Whether a program can be started, before anything else is.
#pragma once

#include <string>

#include "base/status.h"

namespace paceline {

// `program` as execvp takes it: with a / a file, else a name in the folders of `path`, colons between them. Errors: kBadRequest
// that says what is there instead.
Status check_startable(const std::string& program, const std::string& path);

}  // namespace paceline
