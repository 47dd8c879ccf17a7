// Commands on hosts of a lab, until all have ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/lab.h"

namespace paceline::lab {

enum class Output { kStandard, kError };

enum class OnFailure { kOthersGoOn, kEndOthers };

struct RunHooks {
  // A line, without its end, of command `index`. May be empty.
  std::function<void(std::size_t index, Output output, const std::string& line)> on_line;
  // Called about every `tick` while commands run. May be empty.
  std::function<void()> on_tick;
  Duration tick = std::chrono::milliseconds(100);
  // A counter (eventfd) of requests to end: with the first the commands get SIGINT and `grace` to end, with the second, or when
  // that is over, SIGKILL. -1: none.
  int interrupt = -1;
  Duration grace = std::chrono::seconds(5);
  // Longest time; then as after the first request. None: as long as it takes.
  std::optional<Duration> limit;
  // Whether a command that fails ends the others, as after the first request.
  OnFailure on_failure = OnFailure::kOthersGoOn;
  // Commands that are only there for the others, such as a coordinator, are ended like that when all the others have ended.
  std::vector<std::size_t> helpers;
};

struct Ending {
  int exit_code = -1;      // 128 + signal when killed
  double seconds = 0;      // from its start to its end
  double cpu_seconds = 0;  // of what it was and waited for
};

struct RunOutcome {
  std::vector<Ending> endings;               // in the commands' order
  std::optional<std::size_t> first_failure;  // of the commands, in time
  bool interrupted = false;                  // a request to end came
  bool out_of_time = false;                  // the limit was over
};

// Starts all and waits. The calling thread must live as long. Errors: kIo when a process cannot be made; then all are killed.
Result<RunOutcome> run(const Lab& lab, const std::vector<HostCommand>& commands, const RunHooks& hooks);

}  // namespace paceline::lab
