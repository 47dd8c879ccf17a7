// Starts paceline-trainer, the program with LibTorch, for work that is no job, and this program itself for jobs whose report is
// wanted: measurements.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/report.h"

namespace paceline::cli {

// Beside this program.
std::string trainer_path();
// kIo that says how to build it.
Status trainer_exists();

// Runs it with `request` and waits for its end. `on_line` gets every JSON object that it prints. Errors: what the trainer says went
// wrong, kBadRequest where it says so; kCancelled after Ctrl-C.
Status run_trainer(const runtime::Json& request, const std::function<void(const runtime::Json&)>& on_line);

// Runs this program with `arguments`; its standard output. Errors: what it says went wrong, kBadRequest where it says so.
Result<std::string> run_paceline(std::vector<std::string> arguments);

}  // namespace paceline::cli
