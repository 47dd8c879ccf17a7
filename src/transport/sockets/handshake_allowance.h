// How much of a loop's processor time strangers may take for handshakes: whoever floods a port with them slows down those who want
// in, and not the connections that are there. One loop.
#pragma once

#include "base/quantity.h"

namespace paceline::transport {

class HandshakeAllowance {
 public:
  static constexpr Duration kWindow = std::chrono::milliseconds(100), kOfWindow = std::chrono::milliseconds(20);

  // How long the next step of a handshake has to wait; 0: not at all.
  Duration wait(TimePoint now) {
    if (now >= window_end_) {
      window_end_ = now + kWindow;
      used_ = Duration{0};
    }
    return used_ < kOfWindow ? Duration{0} : window_end_ - now;
  }
  // A step has taken so much of a processor.
  void charge(Duration took) { used_ += took; }

 private:
  TimePoint window_end_{};
  Duration used_{0};
};

}  // namespace paceline::transport
