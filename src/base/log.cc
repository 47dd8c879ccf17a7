#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace paceline::log {
namespace {

std::shared_ptr<spdlog::logger> to_standard_error(const std::string& label, spdlog::level::level_enum level) {
  auto made = std::make_shared<spdlog::logger>(label, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  made->set_level(level);
  made->set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
  return made;
}

// Never destroyed: a thread may log while the program ends.
std::shared_ptr<spdlog::logger>& current() {
  static auto* const logger = new std::shared_ptr<spdlog::logger>(to_standard_error("paceline", spdlog::level::warn));
  return *logger;
}

}  // namespace

void start(const std::string& label, spdlog::level::level_enum level) { set_logger(to_standard_error(label, level)); }

std::shared_ptr<spdlog::logger> logger() { return current(); }
void set_logger(std::shared_ptr<spdlog::logger> logger) { current() = std::move(logger); }

}  // namespace paceline::log
