#include "job/compute_speed.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace paceline::job {
namespace {

constexpr double kSlowest = 0.001;
constexpr double kLeastJitterFactor = 0.1;
constexpr double kMostDeviations = 3;
constexpr std::uint64_t kStream = 0x5eed0fe2;  // tells these numbers from others drawn from the same seed

// In (0, 1].
double uniform(std::uint64_t drawn) { return static_cast<double>((drawn >> 11) + 1) * 0x1p-53; }

// Box and Muller's, of two uniform numbers.
double standard_normal(std::uint64_t a, std::uint64_t b) {
  return std::sqrt(-2 * std::log(uniform(a))) * std::cos(2 * std::numbers::pi * uniform(b));
}

}  // namespace

bool ComputeSpeed::changes_anything() const {
  return jitter > 0 || std::ranges::any_of(by_rank, [](double speed) { return speed != 1; });
}

Result<std::vector<double>> parse_speeds(const std::string& speed) {
  std::vector<double> speeds;
  if (speed.empty()) return speeds;
  for (std::size_t begin = 0; begin <= speed.size();) {
    const std::size_t end = std::min(speed.find(',', begin), speed.size());
    const std::string entry = speed.substr(begin, end - begin);
    double value = 0;
    const auto [stop, problem] = std::from_chars(entry.data(), entry.data() + entry.size(), value);
    if (problem != std::errc() || stop != entry.data() + entry.size() || !(value >= kSlowest && value <= 1)) {
      return error(ErrorKind::kBadRequest,
                   "--speed {}: entry {} is '{}'; legal: {} to 1, one number for each worker, separated by commas", speed,
                   speeds.size() + 1, entry, kSlowest);
    }
    speeds.push_back(value);
    begin = end + 1;
  }
  return speeds;
}

Status check_speeds(const std::vector<double>& by_rank, std::int32_t workers) {
  if (by_rank.empty() || by_rank.size() == static_cast<std::size_t>(workers)) return {};
  return error(ErrorKind::kBadRequest, "--speed has {} entries for {} workers; give one for each worker", by_rank.size(), workers);
}

double typical_slowness(const ComputeSpeed& speed, Rank rank) {
  return speed.by_rank.empty() ? 1 : 1 / speed.by_rank[static_cast<std::size_t>(rank.value)];
}

double slowest(const ComputeSpeed& speed) { return speed.by_rank.empty() ? 1 : 1 / std::ranges::min(speed.by_rank); }

double slowness(const ComputeSpeed& speed, Rank rank, Iteration iteration) {
  const double own = speed.by_rank.empty() ? 1 : speed.by_rank[static_cast<std::size_t>(rank.value)];
  if (speed.jitter == 0) return 1 / own;
  const auto draw = [&](std::uint64_t which) {
    return random_at(speed.seed, {kStream, static_cast<std::uint64_t>(rank.value), static_cast<std::uint64_t>(iteration), which});
  };
  const double z = std::clamp(standard_normal(draw(0), draw(1)), -kMostDeviations, kMostDeviations);
  return std::max(kLeastJitterFactor, 1 + speed.jitter * z) / own;
}

}  // namespace paceline::job
