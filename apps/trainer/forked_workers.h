// Several workers of one machine out of one process: what LibTorch does while it is loaded, some tenths of a second of a core, is
// done once for all of them, and they share its pages.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace paceline::trainer {

// `argument`, the program's only one, is [{"workers": their number, "requests": DESCRIPTOR}]. What is handed on there
// (process/handed_text.h) is a JSON array of {"request": worker::WorkerRequest, "output", "errors": descriptors to print on}. In
// each of the forked processes: its request, whose rank then stands in `argument`, where lists of processes find it; they have
// been adopted by the process that started this one, which must be a child subreaper, and die with it. In this process: nothing,
// after printing their process ids, one a line, in the order of the array; it is to end at once. Call before there are threads.
Result<std::optional<std::string>> fork_workers(char* argument);

}  // namespace paceline::trainer
