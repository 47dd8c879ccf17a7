#include "paceline/command.h"

#include <cstdio>

namespace paceline::cli {

int exit_code(const Status& status) {
  if (status.ok()) return kDone;
  switch (status.kind()) {
    case ErrorKind::kBadRequest: return kWrongRequest;
    case ErrorKind::kCancelled: return kInterrupted;
    default: return kFailed;
  }
}

int report_error(const Status& status) {
  std::fprintf(stderr, "paceline: error: %s\n", status.message().c_str());
  return exit_code(status);
}

void set_examples(CLI::App& command, const std::string& examples) { command.footer("Examples:\n" + examples); }

}  // namespace paceline::cli
