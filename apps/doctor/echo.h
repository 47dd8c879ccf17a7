// Round trip, clock offset and rate between two processes over the tcp transport: one answers, one asks.
//
// A question is a heartbeat frame with the asker's clock; the answer repeats it and adds when the question came and when the answer
// left by the answerer's clock (both wall clocks), as in NTP. Offset = ((came - asked) + (left - back)) / 2, from the exchange with
// the least round trip, and wrong by at most half of that. Rate: chunks for a while, then a question; TCP keeps the order, so its
// answer says that all have arrived. Pulls: a question may want so many bytes, which come as chunks before its answer. An asker
// waits for each answer before it asks again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cost/link_fit.h"
#include "transport/transport.h"

namespace paceline::cli {

inline constexpr std::uint16_t kDoctorPort = 4170;

// Answers everybody who asks: the last 64 who have come, one question at a time each, of whose answer at most 0.5 MB wait to be
// sent. Belongs to the transport's loop, which somebody runs.
class EchoServer {
 public:
  EchoServer(transport::Transport& transport, std::string release);
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  // Errors: kIo when the address cannot be had. Returns where it listens.
  Result<transport::Address> start(const transport::Address& address);

 private:
  class Peer;
  transport::Transport& transport_;
  std::string release_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, std::unique_ptr<Peer>> peers_;  // before the listener, which adds to it
  std::unique_ptr<transport::Listener> listener_;
};

inline constexpr Bytes kLargestPull{1 << 26};

struct EchoOptions {
  int exchanges = 200;
  Duration streaming = std::chrono::milliseconds(400);  // how long chunks are sent
  std::vector<Bytes> pulls;                             // what is pulled one after the other, each at most kLargestPull
  Duration deadline = std::chrono::seconds(15);         // of everything
  std::function<void(std::size_t done)> on_pull;        // after each pull; may be empty
};

struct EchoAnswer {
  std::string release;                                 // of the peer's program
  double round_trip_least = 0, round_trip_median = 0;  // seconds
  double clock_offset = 0;                             // seconds that the peer's clock is ahead of this one's
  double bytes_per_second = 0;
  std::vector<cost::LinkSample> pulls;  // in the order of the options
};

// HOST or HOST:PORT of a doctor ("[::1]:4170", "::1"). kBadRequest that begins with `where`.
Result<transport::Address> doctor_address(const std::string& text, const std::string& where);

// Blocks. Errors: kPeerLost when nobody listens there or the peer hangs up (it is no doctor), kDeadline; the address is named.
Result<EchoAnswer> ask(const transport::Address& address, const EchoOptions& options);

// The same against a server of its own on the loopback.
Result<EchoAnswer> ask_loopback(const EchoOptions& options);

}  // namespace paceline::cli
