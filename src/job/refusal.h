// How rules between options refuse.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace paceline::job {

// `option` as the user knows it, "--momentum".
template <typename... Args>
Status contradiction(const std::string& option, fmt::format_string<Args...> format, Args&&... args) {
  return Status(ErrorKind::kBadRequest, fmt::format(format, std::forward<Args>(args)...), {"contradiction", option});
}

}  // namespace paceline::job
