// How far a job is, from what its roster has counted: one pure function says in which phase it is, and why it ends.
//
//   gathering   workers and servers join; when all are there their tables and settings are compared; any difference refuses
//               everybody with the same words
//   preparing   the hub (wire/seat.h) is welcomed and says ready, so that a worker never meets a server that does not know the job
//   running     workers are welcomed; each reports when it has done its iterations
//   ending      everybody was told to stop; servers still report
//   ended
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "wire/control.h"

namespace paceline::membership {

enum class Phase { kGathering, kPreparing, kRunning, kEnding, kEnded };

struct Standing {
  std::int32_t free_seats = 0;      // that nobody has
  std::int32_t unready = 0;         // seats of the hub whose process does not know the job yet
  std::int32_t working = 0;         // workers that have not reported
  std::int32_t staying = 0;         // members from which something is still to come
  std::optional<wire::Stop> cause;  // why the job cannot go on
  std::string asked;                // who asked it to stop, as a sentence; "": nobody
};

struct Verdict {
  Phase phase = Phase::kGathering;
  wire::Stop stop;  // from kEnding on: why
};

Verdict verdict(const Standing& standing);

}  // namespace paceline::membership
