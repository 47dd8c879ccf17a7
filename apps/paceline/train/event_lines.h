// Lines for a process that reads along, written by a thread of their own: a reader that stands still, as a launcher behind Ctrl-Z
// does, holds up nobody else. Destroying it waits until all is written.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>

#include "base/task_thread.h"

namespace paceline::cli {

class EventLines {
 public:
  static constexpr int kMostWaiting = 100'000;  // some 30 MB
  enum class Worth { kKept, kPassing };         // a kPassing one is left out while so many wait for the reader

  // `to` outlives it.
  explicit EventLines(std::FILE* to) : to_(to) {}

  void add(std::string line, Worth worth);
  // Until all is written: for a line that has to be there before what happens next. Waits for the reader if more waits than a pipe
  // holds.
  void wait_written() { thread_.wait_idle(); }

 private:
  std::FILE* to_;
  std::atomic<int> waiting_ = 0;
  TaskThread thread_;
};

}  // namespace paceline::cli
