// The way to a host, measured: what `findings` needs to know of it. Takes about two seconds; blocks. Where nobody answers, why.
#pragma once

#include "doctor/echo.h"
#include "doctor/findings.h"

namespace paceline::cli {

struct MeasuredWay {
  Result<EchoAnswer> answer;  // of one connection
  HostFacts facts;
};

// `ready`: why no doctor could be started there, if so.
MeasuredWay measure_way(const transport::Address& host, const std::vector<Interface>& interfaces, std::optional<double> label,
                        const Status& ready);

}  // namespace paceline::cli
