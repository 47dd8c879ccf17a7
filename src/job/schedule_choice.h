// What was asked for of a schedule: its name, and the parts that are to differ from what the name stands for. A value, the same on
// every process of a job; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "job/loop_options.h"
#include "scheduling/schedule.h"

namespace paceline::job {

struct ScheduleChoice {
  std::string name = "tuned";                             // one of scheduling::schedule_names()
  std::optional<std::int64_t> slice;                      // largest slice, parameters; at least 1
  std::optional<std::int64_t> merge;                      // what is merged, parameters; 0: nothing
  std::optional<scheduling::BatchingAlgorithm> batching;  // only for a schedule whose values come back in batches
  std::optional<scheduling::PushWhen> push;               // kInBatches only where values come back in batches
  std::optional<scheduling::Return> back;
  scheduling::WindowRule window{};
  scheduling::OrderedPlaces places{};  // by Order::kFirstInFirstOut only the window can be a place

  bool operator==(const ScheduleChoice&) const = default;
};

// The schedule. kBadRequest, naming the option, when a part contradicts the schedule.
Result<scheduling::ScheduleOptions> schedule_of(const ScheduleChoice& choice);
// How a job with `loop` cuts and orders its messages. The schedule's name, slice, batching, push and return do not count.
Result<scheduling::ScheduleOptions> schedule_of(const ScheduleChoice& choice, Loop loop);

// What may be typed for the parts. kBadRequest that names the option.
// A plain number counts parameters, one with a unit bytes (4 each). `least`: the smallest legal number of parameters.
Result<std::int64_t> parse_parameters(const char* option, std::string_view text, std::int64_t least, const char* legal);
Result<scheduling::Return> parse_return(std::string_view text);
Result<scheduling::PushWhen> parse_push(std::string_view text);
Result<scheduling::BatchingAlgorithm> parse_batching(std::string_view text);

}  // namespace paceline::job
