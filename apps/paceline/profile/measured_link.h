// A link as `paceline profile` measured it: what a transfer costs to start (iBatch's Ts) and the bytes/s after that, fitted over
// pulls of several sizes. Pure: values in, values out.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "cost/link_fit.h"
#include "report/report.h"

namespace paceline::cli {

using report::Json;

struct Spread {
  double median = 0, least = 0, most = 0;
};
// At least one value.
Spread spread_of(std::vector<double> values);
Json to_json(const Spread& spread);  // {"median", "min", "max"}

struct MeasuredLink {
  std::string server;  // its address; "loopback", "given"
  cost::LinkFit fit;
  struct Transfer {
    Bytes size;
    Spread seconds;
  };
  std::vector<Transfer> transfers;  // ascending by size; none when the link was given or assumed
  std::string warning;              // why it was assumed; "": it was not
};

// Sizes to pull over a link of that rate: a factor of four apart, at least four of them, the largest about a tenth of a second but
// none above `largest`.
std::vector<Bytes> pull_sizes(BytesPerSecond rate, Bytes largest);

// `samples` in the order in which they were pulled, all sizes once a round; the first round warms up and is dropped.
// Errors: kIo when the times do not tell a rate.
Result<MeasuredLink> fit_pulls(const std::string& server, const std::vector<cost::LinkSample>& samples, std::size_t sizes);

// {"server", "start_up", "bandwidth", "residual", "transfers": [{"bytes", "seconds": {"median", "min", "max"}}]}
Json to_json(const MeasuredLink& link);
std::string link_text(const MeasuredLink& link);  // a line

}  // namespace paceline::cli
