// How a command says that what it was asked is wrong.
#pragma once

#include <utility>

#include "base/status.h"

namespace paceline::cli {

// A kBadRequest (exit code 2) with this message.
template <typename... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return error(ErrorKind::kBadRequest, format, std::forward<Args>(args)...);
}

}  // namespace paceline::cli
