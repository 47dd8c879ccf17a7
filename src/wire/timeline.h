// What a process has recorded of a job for `--trace`, on its way to the coordinator, and what its clock shows when it is asked.
// Payloads of kTimeline and kClockTell (wire/message.h). Times are nanoseconds of the sender's own clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "wire/event.h"

namespace paceline::wire {

enum class TimelineThread : std::uint8_t { kTraining, kLoop };

// What one thread has recorded, in the order of recording, which is that of `end`.
struct TimelinePart {
  TimelineThread thread = TimelineThread::kLoop;
  std::uint64_t dropped = 0;  // older events, for which there was no room
  std::vector<Event> events;  // up to kLastRecorded; without their `bytes`

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
