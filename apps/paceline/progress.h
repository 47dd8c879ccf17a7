// A bar on standard error for whoever waits: `packing [#####     ]  52 %  2600 of 5000  4.1 s left`. Painted only on a terminal,
// unless it is asked for, so that logs and scripts stay clean. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/clock.h"

namespace paceline::cli {

enum class ShowProgress { kOnTerminal, kAlways, kNever };

class ProgressBar {
 public:
  // `total` of 0 or less: finished from the start. On a terminal the line is repainted at most ten times a second; elsewhere
  // (kAlways) a line is written at most once a second. `clock` and `to` must outlive the bar.
  ProgressBar(std::string label, std::int64_t total, ShowProgress show, const Clock& clock, std::FILE* to = stderr);
  ~ProgressBar();  // leaves the cursor on a line of its own, also when not finished
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` of `total`; cheap enough for every sample. `note` stands behind the numbers, e.g. "loss 0.31".
  void update(std::int64_t done, const std::string& note = "");

  bool shown() const { return shown_; }

 private:
  void paint(std::int64_t done, const std::string& note);

  std::string label_;
  std::int64_t total_;
  const Clock& clock_;
  std::FILE* to_;
  bool terminal_;
  bool shown_;
  TimePoint started_;
  TimePoint painted_;
  std::size_t painted_width_ = 0;  // what a shorter line has to cover
  bool any_painted_ = false;
  bool complete_ = false;
};

// The line itself, without its end. Time left is an extrapolation from `elapsed`, left out as long as nothing is done.
std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, Duration elapsed,
                          const std::string& note);
// The same for a terminal that is so many columns wide (0: nobody knows): a line that is full would wrap, and the next one not
// replace it. Covers the line before, of `covered` columns.
std::string fitted_line(std::string line, std::size_t columns, std::size_t covered);

}  // namespace paceline::cli
