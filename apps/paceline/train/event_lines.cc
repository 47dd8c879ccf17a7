#include "paceline/train/event_lines.h"

#include <utility>

namespace paceline::cli {

void EventLines::add(std::string line, Worth worth) {
  if (worth == Worth::kPassing && waiting_ >= kMostWaiting) return;
  ++waiting_;
  thread_.run([this, line = std::move(line) + "\n"] {
    static_cast<void>(std::fwrite(line.data(), 1, line.size(), to_));  // nobody may be left to read
    static_cast<void>(std::fflush(to_));
    --waiting_;
  });
}

}  // namespace paceline::cli
