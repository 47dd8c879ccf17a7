#include "planner/sizing/servers.h"

#include <algorithm>
#include <cmath>

#include "planner/sizing/rounding.h"

namespace paceline::planner {
namespace {

constexpr long double kMostServers = 9007199254740992.0L;

Status check_positive(const char* name, double value) {
  if (std::isfinite(value) && value > 0) return {};
  return error(ErrorKind::kBadRequest, "{} is {}; legal are finite numbers above 0", name, value);
}

Status check(const ServerQuestion& question) {
  if (question.parameters.count < 0)
    return error(ErrorKind::kBadRequest, "parameter_bytes is {}; legal is 0 or more", question.parameters.count);
  if (question.workers < 1) return error(ErrorKind::kBadRequest, "workers is {}; legal is 1 or more", question.workers);
  PACELINE_RETURN_IF_ERROR(check_positive("bandwidth", question.server_bandwidth.value));
  PACELINE_RETURN_IF_ERROR(check_positive("worker_bandwidth", question.worker_bandwidth.value));
  return check_positive("compute_time", question.compute_seconds);
}

// ceil(value), or the nearest whole number when value differs from it by rounding only.
long double careful_ceil(long double value) {
  const long double nearest = std::round(value);
  return std::abs(value - nearest) <= kRounding * value ? nearest : std::ceil(value);
}

}  // namespace

Result<ServerAnswer> servers_needed(const ServerQuestion& question) {
  PACELINE_RETURN_IF_ERROR(check(question));
  const long double passes = question.duplex == Duplex::kHalf ? 2 : 1;
  const long double traffic = passes * static_cast<long double>(question.parameters.count);  // of one worker, bytes
  const long double seconds = question.compute_seconds;
  const long double exact = traffic * static_cast<long double>(question.workers) / (seconds * question.server_bandwidth.value);
  if (exact > kMostServers) {
    return error(ErrorKind::kBadRequest, "bandwidth {} bytes/s and compute_time {} s would need more than 2^53 servers",
                 question.server_bandwidth.value, question.compute_seconds);
  }
  ServerAnswer answer;
  answer.servers = std::max<std::int64_t>(1, static_cast<std::int64_t>(careful_ceil(exact)));
  const long double needed = traffic / seconds;
  const long double shortfall = needed - question.worker_bandwidth.value;
  if (shortfall > kRounding * needed) answer.worker_link_shortfall.value = static_cast<double>(shortfall);
  return answer;
}

}  // namespace paceline::planner
