#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace paceline::log {

void start(const std::string& label, spdlog::level::level_enum level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(label, std::move(sink));
  logger->set_level(level);
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$: %v");
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace paceline::log
