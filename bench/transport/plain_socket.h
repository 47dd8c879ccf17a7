// The yardstick: what anybody would write in an afternoon with blocking sockets.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "lab/lab.h"

namespace paceline::bench {

enum class Check { kNone, kCrc32c };

// Where the two ends of a measurement are.
struct Ends {
  const lab::Lab* lab = nullptr;  // null: both here, over the loopback; else sender and receiver on its hosts 0 and 1
  std::string address() const { return lab == nullptr ? "127.0.0.1" : lab->address(1); }
  Status enter(int host) const { return lab == nullptr ? Status() : lab->enter(host); }
  Status on(int host, const std::function<Status()>& action) const { return lab == nullptr ? action() : lab->on(host, action); }
};

// Two ends of a TCP connection over the loopback, without delay of small pieces.
class SocketPair {
 public:
  SocketPair(int here, int there) : here_(here), there_(there) {}
  SocketPair(SocketPair&& other) noexcept : here_(std::exchange(other.here_, -1)), there_(std::exchange(other.there_, -1)) {}
  ~SocketPair();
  int here() const { return here_; }
  int there() const { return there_; }

 private:
  int here_, there_;
};
Result<SocketPair> connected_sockets();

// Sends `chunks` in turn until `count` have been sent; the receiver puts each at the same place, checks it if asked to, and answers
// one byte after the last. Returns the time from the first byte to that answer. kCorrupt when the last chunk is not what was sent.
Result<Duration> stream_plain(const std::vector<std::vector<std::byte>>& chunks, std::size_t count, Check check,
                              const Ends& ends = {});

// `count` times `payload` there and back; returns the time of all.
Result<Duration> round_trips_plain(std::span<const std::byte> payload, int count, Check check);

}  // namespace paceline::bench
