// Measures a node's link by the acknowledgements of what it sends, and says how large its window is to be (scheduling/window.h).
// Pure: events with their times in, the window out. Owned by one progress loop.
//
//   round trip   the shortest time from handing over a chunk to its acknowledgement; one chunk is timed at a time, of any
//                destination. A queue on the way makes a round trip longer, never shorter, so the window does not feed on itself.
//   rate         the fastest of the last kSamples. A sample is what was acknowledged in kSampleTime or more while something was
//                waiting to leave all the time, for otherwise it would tell how much there was to send. The first one of a time
//                of that kind does not count: shapers and sockets let a first burst pass at once.
//   sustained    the mean of the last kSamples, for people. Acknowledgements that have waited in a queue on their way back come in
//                a bunch, and a sample that ends with one holds more than the link carried meanwhile: with 10 ms of queue a half
//                more. A window that is a little too large does no harm, and one that shrinks with late acknowledgements does;
//                but nobody should read of a rate that the link cannot have.
// Until there is a sample the window is WindowRule::size, to however many destinations.
//
// A rate is remembered for most of a second of sending, because acknowledgements also come slowly while others fill the link
// towards this node. Forgotten sooner, a lower rate would shrink the window, the smaller window the rate, and all others would in
// the end wait for this node.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "scheduling/window.h"

namespace paceline::scheduling {

class WindowFollower {
 public:
  static constexpr std::size_t kSamples = 40;
  static constexpr Duration kSampleTime = std::chrono::milliseconds(20);
  static constexpr int kSampleChunks = 8;  // a sample has at least so many

  explicit WindowFollower(WindowRule rule) : rule_(rule), window_(rule.size) {}

  // What was measured so far counts for the new rule too.
  void set_rule(const WindowRule& rule);

  enum class Backlog { kNone, kSome };
  enum class Window { kSame, kChanged };

  // A chunk has been handed to the connection of `destination`, a small number.
  void on_sent(std::uint32_t destination, TimePoint now);
  // Its oldest chunk has been received. `backlog`: whether anything still waits to leave, to any destination. A change of less than
  // a tenth is none.
  Window on_acknowledged(std::uint32_t destination, Bytes size, Backlog backlog, TimePoint now);
  // Nothing on its way to `destination` will be acknowledged.
  void on_removed(std::uint32_t destination);

  Bytes window() const { return window_; }
  Bytes chunk() const { return chunk_for(window_); }
  // Moves with every sample, also when on_acknowledged() says kSame.
  Bytes wide() const { return samples_ == 0 ? Bytes{} : wide_for(rule_, {fastest_}); }
  // What was measured so far, also with a fixed window.
  std::optional<BytesPerSecond> rate() const;
  std::optional<BytesPerSecond> sustained() const;
  std::optional<Duration> round_trip() const { return round_trip_; }

 private:
  Bytes wanted() const;
  void sample(Bytes size, Backlog backlog, TimePoint now);

  WindowRule rule_;
  Bytes window_;
  std::vector<std::uint32_t> on_their_way_;  // chunks, by destination
  struct Timed {
    std::uint32_t destination = 0, ahead = 0;  // chunks of the destination that will be acknowledged before it
    TimePoint sent;
  };
  std::optional<Timed> timed_;
  std::optional<Duration> round_trip_;

  bool counts_ = false;  // whether the sample that runs is not the first one
  std::optional<TimePoint> since_;
  std::int64_t bytes_ = 0;
  int chunks_ = 0;
  struct Sample {
    double bytes = 0, seconds = 0;
    double rate() const { return bytes / seconds; }
  };
  std::span<const Sample> remembered() const { return {last_.data(), std::min(samples_, kSamples)}; }

  std::array<Sample, kSamples> last_{};
  std::size_t samples_ = 0;
  double fastest_ = 0;  // of last_
};

}  // namespace paceline::scheduling
