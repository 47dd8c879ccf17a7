// Network namespaces without names: one lives as long as a descriptor or a process holds it, so that nothing is left of a lab
// whatever ends its owner. Blocking calls; any thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace paceline::lab {

// Owns a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }
  void reset() { *this = Descriptor(); }

 private:
  int number_ = -1;
};

Status system_error(const std::string& what);  // kIo, with errno's text

Result<Descriptor> make_network();
// The calling thread belongs to the network from here on, and what it opens.
Status enter_network(const Descriptor& network);
// Runs `action` on a thread inside, and waits for it.
Status within(const Descriptor& network, const std::function<Status()>& action);
// Runs a program inside with `input` as its standard input, and waits. Errors: kIo with what it said on standard error.
Status run_within(const Descriptor& network, std::vector<std::string> arguments, const std::string& input);
// A path that other processes of this user can open while `network` is open.
std::string path_of(const Descriptor& network);

}  // namespace paceline::lab
