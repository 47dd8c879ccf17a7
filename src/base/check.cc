#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paceline::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "paceline: internal error: %s:%d: %s does not hold: %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace paceline::detail
