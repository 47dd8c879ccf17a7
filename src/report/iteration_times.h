// How long the iterations of a job took, in memory and on the wire bounded whatever their number: every one of them as long as
// there are at most 10 000, else a count for each size. Count, least and most are exact; the median is exact in the first case
// and at most 0.03 % off in the second. Plain value; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::report {

class IterationTimes {
 public:
  static constexpr std::size_t kMostExact = 10'000;

  IterationTimes() = default;
  IterationTimes(std::initializer_list<double> seconds);
  // At least 0.
  void add(double seconds);
  // All of another worker's.
  void add(const IterationTimes& other);

  std::int64_t count() const { return count_; }
  double last() const { return last_; }  // added; 0 if there is none, like the others
  double least() const { return least_; }
  double most() const { return most_; }
  double median() const;  // the lower of the middle two

  nlohmann::ordered_json to_json() const;
  // Throws what the accessors of JSON throw, also where the numbers contradict each other.
  static IterationTimes from_json(const nlohmann::ordered_json& json);

  bool operator==(const IterationTimes&) const = default;

 private:
  void note(double seconds, std::int64_t count);
  void put(double seconds);

  std::int64_t count_ = 0;
  double last_ = 0, least_ = 0, most_ = 0;
  std::vector<double> exact_;                     // all, or none where there are too many
  std::map<std::int32_t, std::int64_t> by_size_;  // then: how many of each size
};

}  // namespace paceline::report
