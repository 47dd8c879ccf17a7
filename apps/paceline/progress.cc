#include "paceline/progress.h"

#include <algorithm>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

namespace paceline::cli {
namespace {

std::size_t columns_of(std::FILE* terminal) {
  winsize size{};
  return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, Duration elapsed,
                          const std::string& note) {
  constexpr int kCells = 30;
  const double share = total <= 0 ? 1.0 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int filled = static_cast<int>(share * kCells);
  std::string line = fmt::format("{} [{:<{}}] {:3d} %  {} of {}", label, std::string(static_cast<std::size_t>(filled), '#'), kCells,
                                 static_cast<int>(share * 100), done, std::max<std::int64_t>(total, 0));
  if (share >= 1) {
    line += fmt::format("  {}", to_text(elapsed));
  } else if (share > 0) {
    line += fmt::format("  {} left", to_text(from_seconds(seconds(elapsed) * (1 - share) / share)));
  }
  return note.empty() ? line : line + "  " + note;
}

std::string fitted_line(std::string line, std::size_t columns, std::size_t covered) {
  const std::size_t most = columns == 0 ? std::string::npos : columns - 1;
  line.resize(std::max(line.size(), covered), ' ');
  return line.substr(0, most);
}

ProgressBar::ProgressBar(std::string label, std::int64_t total, ShowProgress show, const Clock& clock, std::FILE* to)
    : label_(std::move(label)),
      total_(total),
      clock_(clock),
      to_(to),
      terminal_(::isatty(::fileno(to)) != 0),
      shown_(show == ShowProgress::kAlways || (show == ShowProgress::kOnTerminal && terminal_)),
      started_(clock.now()),
      painted_(started_) {}

ProgressBar::~ProgressBar() {
  if (any_painted_ && terminal_) std::fputc('\n', to_);
}

void ProgressBar::update(std::int64_t done, const std::string& note) {
  if (!shown_ || complete_) return;
  complete_ = done >= total_;
  const TimePoint now = clock_.now();
  const Duration pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000);
  if (!complete_ && now - painted_ < pause) return;
  painted_ = now;
  paint(done, note);
}

void ProgressBar::paint(std::int64_t done, const std::string& note) {
  any_painted_ = true;
  const std::string line = progress_line(label_, done, total_, clock_.now() - started_, note);
  if (terminal_) {
    const std::string fitted = fitted_line(line, columns_of(to_), painted_width_);
    painted_width_ = std::min(fitted.size(), line.size());
    fmt::print(to_, "\r{}", fitted);
  } else {
    fmt::print(to_, "{}\n", line);
  }
  std::fflush(to_);
}

}  // namespace paceline::cli
