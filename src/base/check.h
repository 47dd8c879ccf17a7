// Programmer errors: `PACELINE_CHECK(condition, "what was violated: {}", value)` aborts with place and context, in every build.
#pragma once

#include <string>

#include <fmt/core.h>

namespace paceline::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
}

#define PACELINE_CHECK(condition, ...)                                                              \
  do {                                                                                              \
    if (!(condition)) [[unlikely]]                                                                  \
      ::paceline::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
