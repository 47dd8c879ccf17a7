// A transport around any other that injects faults into what is sent through it, for tests: the same calls with the same seed get
// the same faults. The order of frames within a connection never changes, as on a real stream.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace paceline::transport {

// Chances are from 0 to 1, per frame sent, each drawn on its own (duplicate_connect: per connect()).
struct FaultOptions {
  std::uint64_t seed = 1;
  std::uint64_t first_faults_after = 0;  // frames, of all connections together, that pass unharmed; connects too until then

  double delay = 0;  // the frame, and all behind it on its connection, wait up to longest_delay
  Duration longest_delay = std::chrono::milliseconds(20);
  double reorder = 0;  // it waits until another connection has sent a frame, at most longest_delay

  double cut_before = 0;  // the connection ends in place of the frame, in its middle, or behind it; this side hears kPeerLost
  double cut_inside = 0;
  double cut_after = 0;

  double corrupt_head = 0;  // one bit is flipped, in a copy; a flipped length may make the receiver wait for bytes that never come
  double corrupt_payload = 0;

  std::size_t longest_frame = 0;  // one with more bytes, and all behind it on its connection, is lost without a word; 0: none is

  double duplicate_connect = 0;  // a second connection to the same place that says nothing, until the other side closes it
};

// Faults that took place.
struct FaultCounts {
  std::uint64_t delays = 0;
  std::uint64_t cuts = 0;
  std::uint64_t corruptions = 0;
  std::uint64_t reorderings = 0;  // another connection's frame did overtake; a wait in vain counts as a delay
  std::uint64_t duplicate_connects = 0;
};

class FaultyTransport : public Transport {
 public:
  virtual FaultCounts counts() const = 0;  // any thread
};

std::unique_ptr<FaultyTransport> make_faulty_transport(std::unique_ptr<Transport> inner, const FaultOptions& options);

}  // namespace paceline::transport
