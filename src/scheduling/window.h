// How many bytes a node may have on their way, and how large its chunks are: what an urgent unit has to wait for (algorithms: place
// 4 of P3's). A fixed number of bytes, or following the rate of the link that acknowledgements tell. Pure: events with their times
// in, the window out. Owned by one progress loop.
//
// The rule of a window that follows:   window = rate * (link_time + round trip),   within [two chunks, kLargestFollowing].
//   round trip   the shortest time from handing over a chunk to its acknowledgement; one chunk is timed at a time, of any
//                destination. A queue on the way makes a round trip longer, never shorter, so the window does not feed on itself.
//   rate         the fastest of the last kSamples. A sample is what was acknowledged in kSampleTime or more while something was
//                waiting to leave all the time, for otherwise it would tell how much there was to send. The first one of a time
//                of that kind does not count: shapers and sockets let a first burst pass at once.
// Until there is a sample the window is WindowRule::size.
//
// A window holds at least four chunks if these can be made small enough, so that one link can be kept busy by several destinations.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"

namespace paceline::scheduling {

inline constexpr Bytes kLargestChunk{65'536}, kSmallestChunk{16'384};
inline constexpr Bytes kStartWindow{400'000};
inline constexpr Bytes kLargestFollowing{std::int64_t{64} << 20};
inline constexpr Bytes kUnbounded{std::int64_t{1} << 40};  // a window that never holds anything back

struct WindowRule {
  enum class Kind { kFollows, kFixed };
  Kind kind = Kind::kFollows;
  Bytes size = kStartWindow;                          // kFixed: of the window; kFollows: until the rate is known
  Duration link_time = std::chrono::milliseconds(2);  // kFollows: 10 us .. 1 s

  bool operator==(const WindowRule&) const = default;
};
inline constexpr WindowRule fixed_window(Bytes size) { return {.kind = WindowRule::Kind::kFixed, .size = size}; }

// "auto", "auto:4ms" (the link time), or a size of at least two of the largest chunks. kBadRequest that says what is legal.
Result<WindowRule> parse_window(std::string_view text);
std::string to_text(const WindowRule& rule);  // as parse_window reads it

// Of a link with that rate and round trip.
Bytes window_for(const WindowRule& rule, BytesPerSecond rate, Duration round_trip);
// The chunks of a window: a quarter of it, within [kSmallestChunk, kLargestChunk].
Bytes chunk_for(Bytes window);

class WindowFollower {
 public:
  static constexpr std::size_t kSamples = 8;
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
  // What was measured so far, also with a fixed window.
  std::optional<BytesPerSecond> rate() const;
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
  std::array<double, kSamples> rates_{};
  std::size_t samples_ = 0;
};

}  // namespace paceline::scheduling
