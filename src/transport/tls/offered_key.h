// What a peer named that offered another key than ours, fit for a message. The accepting side of one handshake fills it.
#pragma once

#include <string>
#include <string_view>

namespace paceline::transport {

class OfferedKey {
 public:
  void note(std::string_view identity) {
    constexpr std::size_t kMost = 64;
    name_ = identity.substr(0, kMost);
    for (char& letter : name_) {
      if (letter < ' ' || letter > '~') letter = '?';
    }
  }
  const std::string& name() const { return name_; }  // "": none

 private:
  std::string name_;
};

}  // namespace paceline::transport
