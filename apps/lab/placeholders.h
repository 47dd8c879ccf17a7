// What a command for several hosts of a lab says differently on each. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::cli {

// `text` with {host} (number from 0), {hosts}, {address} (this host's), {address:K} (host K's) and {addresses} (all, with commas)
// filled in; other braces stay. Errors: kBadRequest for {address:K} without such a host, and for what is nearly one of these
// ({adress}) or another tool's word for one ({rank}).
Result<std::string> fill_in(std::string_view text, int host, int hosts);

}  // namespace paceline::cli
