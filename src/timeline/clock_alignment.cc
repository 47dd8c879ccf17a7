#include "timeline/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"

namespace paceline::timeline {
namespace {

// Corrections in nanoseconds, to a first guess, at the begin and at the end.
struct Point {
  double begin = 0, end = 0;
};

// a * begin + b * end <= c
struct HalfPlane {
  double a = 0, b = 0, c = 0;
  double excess(const Point& point) const { return a * point.begin + b * point.end - c; }
};

constexpr double kRounding = 0.5;  // nanoseconds that a sum of large numbers may be off

// Cuts the convex polygon. What would leave nothing cuts nothing: returns by how much it is beyond all corners.
double cut(std::vector<Point>& polygon, const HalfPlane& half) {
  const auto nearest = std::ranges::min(polygon, {}, [&](const Point& corner) { return half.excess(corner); });
  if (half.excess(nearest) > kRounding) return half.excess(nearest);
  std::vector<Point> rest;
  for (std::size_t i = 0; i < polygon.size(); ++i) {
    const Point& from = polygon[i];
    const Point& to = polygon[(i + 1) % polygon.size()];
    const double before = half.excess(from) - kRounding, after = half.excess(to) - kRounding;
    if (before <= 0) rest.push_back(from);
    if ((before < 0 && after > 0) || (before > 0 && after < 0)) {
      const double share = before / (before - after);
      rest.push_back({from.begin + share * (to.begin - from.begin), from.end + share * (to.end - from.end)});
    }
  }
  polygon = std::move(rest);
  return 0;
}

}  // namespace

void ClockAlignment::add(const ClockSample& sample) {
  PACELINE_CHECK(sample.sent <= sample.received, "an answer {} ns before its question", sample.sent - sample.received);
  samples_.push_back(sample);
  if (samples_.size() < kMostSamples) return;
  std::vector<ClockSample> quicker;
  for (std::size_t i = 0; i + 1 < samples_.size(); i += 2) {
    const auto took = [&](std::size_t at) { return samples_[at].received - samples_[at].sent; };
    quicker.push_back(samples_[took(i) <= took(i + 1) ? i : i + 1]);
  }
  samples_ = std::move(quicker);
}

std::optional<ClockMap> ClockAlignment::map(std::int64_t begin, std::int64_t end) const {
  if (samples_.empty()) return std::nullopt;
  std::vector<ClockSample> quickest = samples_;
  std::ranges::stable_sort(quickest, {}, [](const ClockSample& sample) { return sample.received - sample.sent; });
  const ClockSample& best = quickest.front();
  const auto width = static_cast<double>(std::max<std::int64_t>(end - begin, 1));
  // Own time less the other clock's, for the first guess.
  const std::int64_t guess = best.sent + (best.received - best.sent) / 2 - best.remote;

  const auto radius = static_cast<double>(best.received - best.sent) / 2 + 1;
  const auto farthest = static_cast<double>(std::max(std::abs(best.remote - begin), std::abs(best.remote - end)));
  const double most = radius + kMostDrift * (farthest + width);
  std::vector<Point> lines = {{-most, -most}, {most, -most}, {most, most}, {-most, most}};
  cut(lines, {-1, 1, kMostDrift * width});
  cut(lines, {1, -1, kMostDrift * width});
  double contradiction = 0;
  for (const ClockSample& sample : quickest) {
    const double b = static_cast<double>(sample.remote - begin) / width, a = 1 - b;
    contradiction = std::max(contradiction, cut(lines, {a, b, static_cast<double>(sample.received - sample.remote - guess)}));
    contradiction = std::max(contradiction, cut(lines, {-a, -b, static_cast<double>(sample.remote + guess - sample.sent)}));
  }

  const auto [first_begin, last_begin] = std::ranges::minmax(lines, {}, &Point::begin);
  const auto [first_end, last_end] = std::ranges::minmax(lines, {}, &Point::end);
  const double at_begin = (first_begin.begin + last_begin.begin) / 2, at_end = (first_end.end + last_end.end) / 2;
  ClockMap map;
  map.remote = begin;
  map.local = begin + guess + std::llround(at_begin);
  map.drift = (at_end - at_begin) / width;
  map.error = std::max(last_begin.begin - first_begin.begin, last_end.end - first_end.end) / 2 + contradiction + 1;
  return map;
}

}  // namespace paceline::timeline
