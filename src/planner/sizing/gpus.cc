#include "planner/sizing/gpus.h"

#include <algorithm>
#include <cmath>

#include "planner/sizing/rounding.h"

namespace paceline::planner {
namespace {

// Wider than the answer, so that only the last rounding shows.
long double wide_speedup(double overhead, std::int64_t gpus) {
  const long double r = overhead;
  const auto g = static_cast<long double>(gpus);
  return g * (1 + r) / (1 + g * r);
}

Status check_gpus(std::int64_t gpus) {
  if (gpus >= 1 && gpus <= kMostGpus) return {};
  return error(ErrorKind::kBadRequest, "gpus is {}; legal are 1..2^53", gpus);
}

Status check_overhead(double overhead) {
  if (std::isfinite(overhead) && overhead >= 0) return {};
  return error(ErrorKind::kBadRequest, "overhead is {}; legal are finite numbers from 0", overhead);
}

Status check_efficiency(double efficiency) {
  if (efficiency > 0 && efficiency <= 1) return {};
  return error(ErrorKind::kBadRequest, "efficiency is {}; legal are numbers above 0 and up to 1", efficiency);
}

}  // namespace

double efficiency(double overhead, std::int64_t gpus) {
  return static_cast<double>(wide_speedup(overhead, gpus) / static_cast<long double>(gpus));
}

double speedup(double overhead, std::int64_t gpus) { return static_cast<double>(wide_speedup(overhead, gpus)); }

Result<std::optional<double>> largest_overhead(std::int64_t gpus, double efficiency) {
  PACELINE_RETURN_IF_ERROR(check_gpus(gpus));
  PACELINE_RETURN_IF_ERROR(check_efficiency(efficiency));
  const double wanted = efficiency * static_cast<double>(gpus);  // the speed-up
  if (wanted <= 1) return std::optional<double>();
  return std::optional<double>((1 - efficiency) / (wanted - 1));
}

Result<GpuCount> fewest_gpus(double overhead, double wanted) {
  PACELINE_RETURN_IF_ERROR(check_overhead(overhead));
  if (!std::isfinite(wanted) || !(wanted > 0)) {
    return error(ErrorKind::kBadRequest, "speedup is {}; legal are finite numbers above 0", wanted);
  }
  GpuCount count;
  const auto enough = static_cast<long double>(wanted) * (1 - kRounding);
  if (overhead > 0) {
    const long double limit = (1 + static_cast<long double>(overhead)) / overhead;
    count.limit = static_cast<double>(limit);
    if (wanted >= limit * (1 - kRounding)) return count;
  }
  // The speed-up grows with the number of GPUs: halve the range in which the first sufficient number lies. The closed form
  // ceil(S / (1 + R - S R)) loses its digits near the limit, this does not.
  std::int64_t low = 1;
  std::int64_t high = kMostGpus;
  if (wide_speedup(overhead, high) < enough) return count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (wide_speedup(overhead, middle) >= enough) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  count.gpus = low;
  return count;
}

// (1 + R) / (1 + G R) >= a, solved for G.
Result<std::optional<std::int64_t>> most_gpus(double overhead, double efficiency) {
  PACELINE_RETURN_IF_ERROR(check_overhead(overhead));
  PACELINE_RETURN_IF_ERROR(check_efficiency(efficiency));
  if (!(overhead > 0)) return std::optional<std::int64_t>();
  const auto r = static_cast<long double>(overhead);
  const long double most = ((1 + r) / static_cast<long double>(efficiency) - 1) / r * (1 + kRounding);
  if (most >= static_cast<long double>(kMostGpus)) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(most))));
}

}  // namespace paceline::planner
