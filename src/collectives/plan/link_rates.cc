#include "collectives/plan/link_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "base/text.h"

namespace paceline::collectives {

std::size_t LinkRates::at(int a, int b) const {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(b);
}

Result<LinkRates> LinkRates::make(int ranks, std::span<const double> seconds_per_byte) {
  if (ranks < 1) return error(ErrorKind::kBadRequest, "rates of the links between {} ranks; at least 1 is needed", ranks);
  const auto wanted = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  if (seconds_per_byte.size() != wanted)
    return error(ErrorKind::kBadRequest, "{} rates for {} ranks; {} are needed", seconds_per_byte.size(), ranks, wanted);
  LinkRates rates(ranks, ranks > 1 ? std::numeric_limits<double>::infinity() : 0);
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < ranks; ++b) {
      const double value = seconds_per_byte[rates.at(a, b)];
      if (a == b) continue;
      if (!(value > 0) || !std::isfinite(value))
        return error(ErrorKind::kBadRequest, "the link from rank {} to rank {} takes {} s for a byte; legal: above 0", a, b, value);
      rates.fastest_ = std::min(rates.fastest_, std::max(value, seconds_per_byte[rates.at(b, a)]));
    }
  }
  rates.steps_.resize(wanted, 0);
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < a; ++b) {
      const double slower = std::max(seconds_per_byte[rates.at(a, b)], seconds_per_byte[rates.at(b, a)]);
      const auto steps = static_cast<int>(std::lround(std::log(slower / rates.fastest_) / std::log(kStep)));
      rates.steps_[rates.at(a, b)] = rates.steps_[rates.at(b, a)] = steps;
    }
  }
  return rates;
}

bool LinkRates::differ() const {
  return std::any_of(steps_.begin(), steps_.end(), [](int steps) { return steps >= kLeastSteps; });
}

double LinkRates::link(int a, int b) const {
  PACELINE_CHECK(a != b && a >= 0 && b >= 0 && a < ranks_ && b < ranks_, "no link between ranks {} and {} of {}", a, b, ranks_);
  return fastest_ * std::pow(kStep, steps_[at(a, b)]);
}

double LinkRates::port(int rank) const {
  if (ranks_ == 1) return 0;
  double fastest = std::numeric_limits<double>::infinity();
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank) fastest = std::min(fastest, link(rank, other));
  }
  return fastest;
}

LinkRates LinkRates::scaled_to(double beta) const {
  LinkRates scaled = *this;
  if (ranks_ == 1) return scaled;
  int slowest = 0;
  for (int rank = 1; rank < ranks_; ++rank) slowest = std::max(slowest, steps_[at(rank - 1, rank)]);
  scaled.fastest_ = beta / std::pow(kStep, slowest);
  return scaled;
}

LinkRates LinkRates::between(std::span<const int> ranks) const {
  PACELINE_CHECK(!ranks.empty(), "the links between no ranks");
  LinkRates some(static_cast<int>(ranks.size()), fastest_);
  some.steps_.resize(ranks.size() * ranks.size(), 0);
  for (int a = 0; a < some.ranks_; ++a) {
    for (int b = 0; b < some.ranks_; ++b) {
      if (a != b) some.steps_[some.at(a, b)] = steps_[at(ranks[static_cast<std::size_t>(a)], ranks[static_cast<std::size_t>(b)])];
    }
  }
  return some;
}

std::string LinkRates::text() const {
  double fastest = std::numeric_limits<double>::infinity(), slowest = 0;
  for (int rank = 0; rank < ranks_; ++rank) fastest = std::min(fastest, port(rank));
  std::vector<int> slow;
  double slow_port = std::numeric_limits<double>::infinity();
  for (int rank = 0; rank < ranks_; ++rank) {
    for (int other = 0; other < rank; ++other) slowest = std::max(slowest, link(rank, other));
    if (port(rank) < fastest * std::pow(kStep, kLeastSteps - 0.5)) continue;
    slow.push_back(rank);
    slow_port = std::min(slow_port, port(rank));
  }
  const auto rate = [](double seconds_per_byte) { return to_text(BytesPerSecond{1 / seconds_per_byte}); };
  if (slow.empty()) return fmt::format("links have {} to {}", rate(slowest), rate(fastest));
  return fmt::format("{} {} {} links of {}{}, the others of up to {}", slow.size() == 1 ? "rank" : "ranks", fmt::join(slow, " "),
                     slow.size() == 1 ? "has" : "have", slow.size() == 1 ? "" : "up to ", rate(slow_port), rate(fastest));
}

}  // namespace paceline::collectives
