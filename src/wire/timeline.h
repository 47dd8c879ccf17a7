// What a process has recorded of a job for `--trace`, on its way to the coordinator, and what its clock shows when it is asked.
// Payloads of kTimeline and kClockTell (wire/message.h). Times are nanoseconds of the sender's own clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/message.h"

namespace paceline::wire {

enum class Happening : std::uint8_t {
  // On the training thread; `unit` is a layer.
  kForward,
  kBackward,
  kGate,  // waiting for the layer's parameters
  // On the training thread; `unit` means nothing.
  kWaitGradients,  // until gradients of the iteration before had left
  kWaitValues,     // for all parameters
  kWaitMiniBatch,  // until one was handed out
  // On a server's loop.
  kAggregate,  // the gradient of worker `peer` was taken; others of the unit are still missing
  kUpdate,     // it was the last one: summed, and the unit updated. kAllUnits: a held iteration's updates
  // A message (`message`, `unit`, `detail`, `iteration` as in its head; `peer` is the other end), at a moment: begin == end.
  kQueued,   // it may leave
  kLeft,     // its first chunk was handed to the connection; of none between the halves of one process
  kArrived,  // it is there completely
};
inline constexpr Happening kLastHappening = Happening::kArrived;
inline constexpr std::uint32_t kAllUnits = ~std::uint32_t{0};

struct TimelineEvent {
  Happening what = Happening::kForward;
  MessageKind message = MessageKind::kPush;  // of a message
  std::int32_t peer = -1;                    // a rank, where there is one
  std::uint32_t unit = 0, detail = 0;
  Iteration iteration = 0;
  std::int64_t begin = 0, end = 0;

  bool operator==(const TimelineEvent&) const = default;
};

enum class TimelineThread : std::uint8_t { kTraining, kLoop };

// What one thread has recorded, in the order of recording, which is that of `end`.
struct TimelinePart {
  TimelineThread thread = TimelineThread::kLoop;
  std::uint64_t dropped = 0;  // older events, for which there was no room
  std::vector<TimelineEvent> events;

  bool operator==(const TimelinePart&) const = default;
};

struct ClockReading {
  std::int64_t nanoseconds = 0;
  bool operator==(const ClockReading&) const = default;
};

std::vector<std::byte> encode(const TimelinePart& part);
std::vector<std::byte> encode(const ClockReading& reading);
// Errors: kCorrupt when bytes are missing, left over, or false.
Result<TimelinePart> decode_timeline_part(std::span<const std::byte> bytes);
Result<ClockReading> decode_clock_reading(std::span<const std::byte> bytes);

}  // namespace paceline::wire
