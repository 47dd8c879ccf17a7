// The way to a host, measured: what `findings` needs to know of it. Takes about two seconds; blocks.
#pragma once

#include "doctor/echo.h"
#include "doctor/findings.h"

namespace paceline::cli {

struct MeasuredWay {
  Result<EchoAnswer> answer;  // of one connection
  HostFacts facts;
};

MeasuredWay measure_way(const transport::Address& host, const std::vector<Interface>& interfaces, std::optional<double> label);

}  // namespace paceline::cli
