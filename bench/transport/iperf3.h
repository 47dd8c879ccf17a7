// iperf3, where it is installed, as one more thing to compare a stream with.
#pragma once

#include "base/status.h"

namespace paceline::bench {

bool iperf3_installed();

// Bytes/s that it streams over the loopback within `seconds`. Blocks. Errors: kIo, with what it said.
Result<double> stream_iperf3(int seconds);

}  // namespace paceline::bench
