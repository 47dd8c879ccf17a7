// A job's timeline as a file in Chrome's trace format (JSON), which Perfetto and chrome://tracing show. One process of the trace
// for each of the job; on its training thread what it computed and waited for, on its loop what a server summed and updated, and
// for each unit of a worker its way to the server and back, as nested asynchronous slices (timeline/round_trips.h). A slice is
// called by what happens and by its layer, "forward conv1"; its category is what happens alone.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "report/report.h"
#include "session/endpoint.h"
#include "timeline/round_trips.h"

namespace paceline::timeline {

struct JobTimeline {
  struct Process {
    wire::PeerName name;
    timeline::ProcessRecord record;
  };
  std::vector<Process> processes;
  std::vector<std::string> layers;  // names
  std::vector<timeline::UnitHome> units;
};

// Streams the file, which is there completely or not at all. Returns what the report says of it: `file`, `processes`, `events`,
// `dropped`, `clock_error_seconds` (how far any two processes may be apart; of each process in `processes`: it and the
// coordinator), `clock_drift` (the largest, against the coordinator), `gates` (the five layers for which training waited longest:
// `layer`, `mean_seconds` and `longest_seconds` of one wait). Errors: kIo.
Result<report::Json> write_timeline(Files& files, const std::string& path, const JobTimeline& job);

}  // namespace paceline::timeline
