// A text that a process hands to one that it starts: of any length, out of sight of lists of processes, in no file. The other one
// is told the descriptor's number. One thread.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace paceline {

class HandedText {
 public:
  // Closes on exec, unless Child::start is told to keep it.
  static Result<HandedText> make(const std::string& text);
  HandedText(HandedText&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HandedText& operator=(HandedText&&) = delete;
  ~HandedText();

  int descriptor() const { return descriptor_; }
  // The program that this process becomes by exec gets it too.
  void keep_on_exec() const;

 private:
  explicit HandedText(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Reads what make() was given, and closes the descriptor. kBadRequest when it is none of those.
Result<std::string> take_handed_text(int descriptor);

}  // namespace paceline
