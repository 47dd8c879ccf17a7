#include "sync/end_times.h"

#include <algorithm>
#include <cmath>

namespace paceline::sync {
namespace {

bool is_time(double value) { return std::isfinite(value) && std::abs(value) <= kLatestTime; }

}  // namespace

Result<EndTimes> EndTimes::from_rows(std::vector<std::vector<double>> rows) {
  if (rows.empty()) return error(ErrorKind::kBadRequest, "there are no workers; give the ends of at least one");
  for (std::size_t p = 0; p < rows.size(); ++p) {
    if (rows[p].empty()) return error(ErrorKind::kBadRequest, "worker {} has no ends; give at least one", p);
    for (std::size_t i = 0; i < rows[p].size(); ++i) {
      if (!is_time(rows[p][i])) {
        return error(ErrorKind::kBadRequest, "worker {} ends iteration {} at {}, which is not a finite time of at most {:g} s", p,
                     i + 1, rows[p][i], kLatestTime);
      }
      if (i > 0 && rows[p][i] < rows[p][i - 1]) {
        return error(ErrorKind::kBadRequest, "worker {} ends iteration {} at {}, before iteration {} at {}; its ends must ascend",
                     p, i + 1, rows[p][i], i, rows[p][i - 1]);
      }
    }
  }
  EndTimes ends;
  ends.rows_ = std::move(rows);
  return ends;
}

Result<EndTimes> EndTimes::predicted(std::vector<double> last_end, std::vector<double> interval, std::int64_t lookahead) {
  if (last_end.empty()) return error(ErrorKind::kBadRequest, "there are no workers; give the last end of at least one");
  if (last_end.size() != interval.size()) {
    return error(ErrorKind::kBadRequest, "there are {} last ends but {} intervals; give one of each per worker", last_end.size(),
                 interval.size());
  }
  if (lookahead < 1) return error(ErrorKind::kBadRequest, "lookahead is {}; legal is 1 or more", lookahead);
  if (lookahead > kMostEvents / static_cast<std::int64_t>(last_end.size())) {
    return error(ErrorKind::kBadRequest, "lookahead {} of {} workers gives more than {} events; give a smaller one", lookahead,
                 last_end.size(), kMostEvents);
  }
  EndTimes ends;
  ends.last_end_ = std::move(last_end);
  ends.interval_ = std::move(interval);
  ends.lookahead_ = lookahead;
  for (std::size_t p = 0; p < ends.workers(); ++p) {
    if (!is_time(ends.last_end_[p])) {
      return error(ErrorKind::kBadRequest, "the last end of worker {} is {}, which is not a finite time of at most {:g} s", p,
                   ends.last_end_[p], kLatestTime);
    }
    if (!is_time(ends.interval_[p]) || ends.interval_[p] < 0) {
      return error(ErrorKind::kBadRequest, "the interval of worker {} is {}; legal are finite numbers from 0 to {:g} s", p,
                   ends.interval_[p], kLatestTime);
    }
    if (!is_time(ends.at(p, lookahead))) {
      return error(ErrorKind::kBadRequest, "worker {} would end iteration {} at {}, which is not a finite time of at most {:g} s",
                   p, lookahead, ends.at(p, lookahead), kLatestTime);
    }
  }
  return ends;
}

double EndTimes::default_now() const { return rows_.empty() ? *std::max_element(last_end_.begin(), last_end_.end()) : 0; }

double EndTimes::first_barrier() const {
  double latest = at(0, 1);
  for (std::size_t p = 1; p < workers(); ++p) latest = std::max(latest, at(p, 1));
  return latest;
}

}  // namespace paceline::sync
