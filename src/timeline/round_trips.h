// Puts together what processes have recorded of each unit: its way from the worker whose gradient it is to its server and back, on
// one clock. Pure; when a job is over.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "timeline/clock_alignment.h"
#include "wire/timeline.h"

namespace paceline::timeline {

struct ProcessRecord {
  std::optional<Rank> worker, server;  // which of them it is; both: of the same rank
  std::vector<wire::TimelinePart> parts;
  ClockMap clock;  // to the coordinator's
};

struct UnitHome {
  Rank server;
  Layer layer;
  Bytes size;
};

// What a unit does one after the other.
enum class Stage : std::uint8_t {
  kEgressQueue,   // may leave, waits for more urgent ones and the window
  kWire,          // until it is there completely
  kIngressQueue,  // until the server takes it
  kAggregation,   // until the others' gradients are there
  kUpdate,
  kUntilAsked,   // the new value waits until it is asked for, or its iteration released
  kReturnQueue,  // the way back, likewise
  kReturnWire,
};
inline constexpr std::size_t kStages = 8;
const char* to_string(Stage stage);

struct RoundTrip {
  Rank worker;
  std::uint32_t unit = 0;
  Iteration iteration = 0;
  // When each stage began, and the end of the last; nanoseconds of the coordinator's clock. Nothing: not recorded.
  std::array<std::optional<std::int64_t>, kStages + 1> at;
};

// Ordered by iteration, unit, worker. Only those whose gradient was seen to become ready: the others began before what is left of
// the record.
std::vector<RoundTrip> round_trips(std::span<const ProcessRecord> processes, std::span<const UnitHome> units);

}  // namespace paceline::timeline
