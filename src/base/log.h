// Log lines for people, on standard error, through spdlog: `log::info("listening on {}", address)`.
// Thread-safe. The level and the process's label ("worker 2") are set once by main.
#pragma once

#include <string>

#include <spdlog/spdlog.h>

namespace paceline::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Lines become `12:00:01.123 worker 2 warning: ...`. Levels: debug, info, warn, err, off.
void start(const std::string& label, spdlog::level::level_enum level);

}  // namespace paceline::log
