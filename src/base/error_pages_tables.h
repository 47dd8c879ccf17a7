// The pages by where an error comes from. Private to error_pages.cc, which has them in one row.
#pragma once

#include <span>

#include "base/error_pages.h"

namespace paceline {

std::span<const ErrorPage> pages_of_requests();   // what was asked, files, this machine
std::span<const ErrorPage> pages_of_processes();  // addresses, keys, joining, running, checkpoints

}  // namespace paceline
