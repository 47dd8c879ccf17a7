// A plain TCP stream between two hosts of a lab, as fast as it gets: what the link is good for, or a competitor on it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/status.h"
#include "lab/namespaces.h"

namespace paceline::lab {

class Stream {
 public:
  // From the host of network `from` to the one of network `to`, whose address is `address`; not faster than `pace`, if given. Two
  // threads until destruction, which cuts it.
  static Result<std::unique_ptr<Stream>> start(const Descriptor& from, const Descriptor& to, const std::string& address,
                                               std::optional<BytesPerSecond> pace = {});
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Bytes received() const { return {received_}; }  // so far; any thread
  // Blocks until `warm_up` is over and then until `period` is; the rate at which bytes arrived within the period. kIo when the
  // stream broke.
  Result<BytesPerSecond> measure(Duration warm_up, Duration period);

 private:
  Stream(Descriptor sender, Descriptor receiver);

  const SystemClock clock_;
  Descriptor sender_, receiver_;
  std::atomic<std::int64_t> received_ = 0;
  std::thread sending_, receiving_;
};

}  // namespace paceline::lab
