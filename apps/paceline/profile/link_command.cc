// `paceline profile --link`: only the link.
#include <fmt/format.h>

#include "base/amounts.h"
#include "base/text.h"
#include "paceline/profile/link.h"

namespace paceline::cli {
namespace {

void print(const MeasuredLink& link) {
  fmt::print("{}\n\n{:>12} {:>12} {:>26} {:>12}\n", link_text(link), "transfer", "time", "least .. most", "fitted");
  for (const MeasuredLink::Transfer& transfer : link.transfers) {
    const double fitted = link.fit.start_up + static_cast<double>(transfer.size.count) / link.fit.bandwidth.value;
    fmt::print("{:>12} {:>12} {:>26} {:>12}\n", to_text(transfer.size), in_time(transfer.seconds.median),
               fmt::format("{} .. {}", in_time(transfer.seconds.least), in_time(transfer.seconds.most)), in_time(fitted));
  }
}

Result<MeasuredLink> measure(const ProfileOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_link_options(options));
  return measure_link(options);
}

}  // namespace

int profile_link(const ProfileOptions& options) {
  const auto link = measure(options);
  if (!link.ok()) return report_error(link.status());
  if (options.json)
    fmt::print("{}\n", to_json(*link).dump(2));
  else
    print(*link);
  return kDone;
}

}  // namespace paceline::cli
