#include "report/iteration_times.h"

#include <algorithm>
#include <cmath>

namespace paceline::report {
namespace {

constexpr std::int32_t kSteps = 2048;  // sizes between a power of two and the next
constexpr std::int32_t kNoTime = -2000 * kSteps;
constexpr std::int64_t kMostIterations = std::int64_t{1} << 53;

// Sizes follow the logarithm, so that each is as exact as the others.
std::int32_t size_of(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return kNoTime;
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);  // 0.5 up to below 1
  return exponent * kSteps + static_cast<std::int32_t>((fraction - 0.5) * 2 * kSteps);
}

double seconds_of(std::int32_t size) {
  if (size == kNoTime) return 0;
  const std::int32_t exponent = size >= 0 ? size / kSteps : -((kSteps - 1 - size) / kSteps);
  return std::ldexp(0.5 + (size - exponent * kSteps + 0.5) / (2 * kSteps), exponent);
}

}  // namespace

IterationTimes::IterationTimes(std::initializer_list<double> seconds) {
  for (const double one : seconds) add(one);
}

void IterationTimes::note(double seconds, std::int64_t count) {
  least_ = count_ == 0 ? seconds : std::min(least_, seconds);
  most_ = count_ == 0 ? seconds : std::max(most_, seconds);
  count_ += count;
}

void IterationTimes::put(double seconds) {
  if (by_size_.empty() && exact_.size() < kMostExact) return exact_.push_back(seconds);
  for (const double one : exact_) ++by_size_[size_of(one)];
  exact_ = {};
  ++by_size_[size_of(seconds)];
}

void IterationTimes::add(double seconds) {
  note(seconds, 1);
  put(seconds);
  last_ = seconds;
}

void IterationTimes::add(const IterationTimes& other) {
  if (other.count_ == 0) return;
  if (other.by_size_.empty()) {
    for (const double one : other.exact_) add(one);
    return;
  }
  for (const double one : exact_) ++by_size_[size_of(one)];
  exact_ = {};
  for (const auto& [size, count] : other.by_size_) by_size_[size] += count;
  note(other.least_, other.count_);
  most_ = std::max(most_, other.most_);
  last_ = other.last_;
}

double IterationTimes::median() const {
  if (count_ == 0) return 0;
  std::int64_t before = (count_ - 1) / 2;
  if (by_size_.empty()) {
    std::vector<double> values = exact_;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(before);
    std::ranges::nth_element(values, middle);
    return *middle;
  }
  for (const auto& [size, count] : by_size_) {
    if (before < count) return std::clamp(seconds_of(size), least_, most_);
    before -= count;
  }
  return most_;
}

nlohmann::ordered_json IterationTimes::to_json() const {
  return {{"last", last_}, {"least", least_}, {"most", most_}, {"each", exact_}, {"by_size", by_size_}};
}

IterationTimes IterationTimes::from_json(const nlohmann::ordered_json& json) {
  const auto wrong = [](const char* what) { throw nlohmann::json::other_error::create(501, what, nullptr); };
  IterationTimes times;
  times.exact_ = json.at("each").get<std::vector<double>>();
  times.by_size_ = json.at("by_size").get<std::map<std::int32_t, std::int64_t>>();
  if (times.exact_.size() > kMostExact || (!times.exact_.empty() && !times.by_size_.empty())) wrong("too many times");
  times.count_ = static_cast<std::int64_t>(times.exact_.size());
  for (const auto& [size, count] : times.by_size_) {
    if (count < 1 || count > kMostIterations - times.count_) wrong("an impossible count of times");
    times.count_ += count;
  }
  times.last_ = json.at("last");
  times.least_ = json.at("least");
  times.most_ = json.at("most");
  if (times.least_ > times.most_) wrong("times of an impossible range");
  return times;
}

}  // namespace paceline::report
