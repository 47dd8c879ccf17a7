// Log lines for people, on standard error, through spdlog: `log::warn("refused {}", address)`. The logger is Paceline's own: a
// program that uses spdlog, or its standard output, is left alone.
// Thread-safe. The level and the process's label ("worker 2") are set once by main; in a program that is not ours they are
// "paceline", and warnings.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

namespace paceline::log {

// Lines become `12:00:01.123 worker 2 warning: ...`. Levels: debug, info, warn, err, off.
void start(const std::string& label, spdlog::level::level_enum level);

std::shared_ptr<spdlog::logger> logger();
// For tests. Not while another thread logs.
void set_logger(std::shared_ptr<spdlog::logger> logger);

template <typename... Args>
void debug(spdlog::format_string_t<Args...> text, Args&&... args) {
  logger()->debug(text, std::forward<Args>(args)...);
}
template <typename... Args>
void warn(spdlog::format_string_t<Args...> text, Args&&... args) {
  logger()->warn(text, std::forward<Args>(args)...);
}

}  // namespace paceline::log
