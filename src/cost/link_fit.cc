#include "cost/link_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace paceline::cost {
namespace {

// Seconds of a message of so many bytes.
struct Point {
  double bytes = 0, time = 0;
};

// The median time of each size, ascending by size. `sorted`: by size, then by time.
std::vector<Point> medians(std::span<const LinkSample> sorted) {
  std::vector<Point> points;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && sorted[end].bytes == sorted[begin].bytes) ++end;
    const LinkSample& middle = sorted[begin + (end - begin - 1) / 2];
    points.push_back({static_cast<double>(middle.bytes.count), seconds(middle.time)});
  }
  return points;
}

double residual(const std::vector<Point>& points, double start_up, double per_byte) {
  double squares = 0;
  for (const Point& point : points) squares += std::pow((start_up + per_byte * point.bytes) / point.time - 1, 2);
  return std::sqrt(squares / static_cast<double>(points.size()));
}

}  // namespace

Result<LinkFit> fit_link(std::span<const LinkSample> samples) {
  for (const LinkSample& sample : samples) {
    if (sample.bytes.count < 0 || sample.time <= Duration::zero()) {
      return error(ErrorKind::kBadRequest,
                   "a message of {} bytes in {} ns says nothing of a link; legal: at least 0 bytes, above 0 ns", sample.bytes.count,
                   sample.time.count());
    }
  }
  std::vector<LinkSample> sorted(samples.begin(), samples.end());
  std::ranges::sort(
      sorted, [](const LinkSample& a, const LinkSample& b) { return std::pair(a.bytes, a.time) < std::pair(b.bytes, b.time); });
  const std::vector<Point> points = medians(sorted);
  if (points.size() < 2) {
    return error(ErrorKind::kBadRequest, "messages of {} are not enough to tell start-up and rate of a link apart; give at least 2",
                 points.size() == 1 ? "one size" : "no size");
  }

  // Least squares of (start_up * u + per_byte * v - 1) with u = 1 / time and v = bytes / time; bytes relative to the largest, so
  // that both are of one magnitude.
  const double largest = points.back().bytes;
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const Point& point : points) {
    const double u = 1 / point.time, v = point.bytes / largest / point.time;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  double start_up = (u1 * vv - v1 * uv) / determinant;
  double per_byte = (v1 * uu - u1 * uv) / determinant / largest;
  if (!(start_up >= 0)) {
    start_up = 0;
    per_byte = v1 / vv / largest;
  }
  if (!(per_byte > 0)) {
    return error(ErrorKind::kBadRequest,
                 "{} bytes took {:.6f} s and {} bytes {:.6f} s: the times do not grow with the size, so the link has no rate",
                 points.front().bytes, points.front().time, points.back().bytes, points.back().time);
  }
  return LinkFit{start_up, {1 / per_byte}, residual(points, start_up, per_byte)};
}

}  // namespace paceline::cost
