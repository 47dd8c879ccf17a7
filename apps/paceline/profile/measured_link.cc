#include "paceline/profile/measured_link.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace paceline::cli {
namespace {

constexpr Bytes kSmallest{4'096}, kLeastLargest{262'144};
constexpr std::int64_t kFactor = 4;
constexpr double kLongestPull = 0.1;  // seconds

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Json to_json(const Spread& spread) { return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}}; }

std::vector<Bytes> pull_sizes(BytesPerSecond rate, Bytes largest) {
  const double most =
      std::clamp(rate.value * kLongestPull, static_cast<double>(kLeastLargest.count), static_cast<double>(largest.count));
  std::vector<Bytes> sizes;
  for (Bytes size = kSmallest; static_cast<double>(size.count) <= most; size = size * kFactor) sizes.push_back(size);
  return sizes;
}

Result<MeasuredLink> fit_pulls(const std::string& server, const std::vector<cost::LinkSample>& samples, std::size_t sizes) {
  PACELINE_CHECK(sizes > 0 && samples.size() > sizes && samples.size() % sizes == 0, "{} pulls of {} sizes", samples.size(), sizes);
  MeasuredLink link{.server = server, .fit = {}, .transfers = {}, .warning = {}};
  const std::vector<cost::LinkSample> counted(samples.begin() + static_cast<std::ptrdiff_t>(sizes), samples.end());
  for (std::size_t size = 0; size < sizes; ++size) {
    std::vector<double> times;
    for (std::size_t i = size; i < counted.size(); i += sizes) times.push_back(seconds(counted[i].time));
    link.transfers.push_back({counted[size].bytes, spread_of(std::move(times))});
  }
  const auto fit = cost::fit_link(counted);
  if (!fit.ok()) return error(ErrorKind::kIo, "the link to {} cannot be measured: {}", server, fit.status().message());
  link.fit = *fit;
  return link;
}

Json to_json(const MeasuredLink& link) {
  Json transfers = Json::array();
  for (const MeasuredLink::Transfer& transfer : link.transfers)
    transfers.push_back({{"bytes", transfer.size.count}, {"seconds", to_json(transfer.seconds)}});
  return {{"server", link.server},
          {"start_up", link.fit.start_up},
          {"bandwidth", link.fit.bandwidth.value},
          {"residual", link.fit.residual},
          {"transfers", transfers}};
}

std::string link_text(const MeasuredLink& link) {
  const std::string cost = fmt::format("start-up {}, {}", to_text(from_seconds(link.fit.start_up)), to_text(link.fit.bandwidth));
  if (link.transfers.empty()) return fmt::format("link, {}: {}", link.warning.empty() ? "given" : "assumed", cost);
  return fmt::format("link to {}: {}, residual {:.3f} over transfers of {} sizes", link.server, cost, link.fit.residual,
                     link.transfers.size());
}

}  // namespace paceline::cli
