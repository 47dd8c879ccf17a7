// How fast the links between ranks are, where they differ: slow hosts, or hosts that are far from each other. A value; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace paceline::collectives {

class LinkRates {
 public:
  // What a measurement scatters is no difference: times are rounded to the fastest link's times a power of kStep, and links differ
  // only when one of them is at least kLeastSteps slower than the fastest.
  static constexpr double kStep = 1.25;
  static constexpr int kLeastSteps = 2;

  // `seconds_per_byte`: from rank a to rank b at a * ranks + b; what stands on the diagonal is ignored. A link is as slow as its
  // slower direction. Errors: kBadRequest, no rank, another number of values, a value that is not above 0 and finite.
  static Result<LinkRates> make(int ranks, std::span<const double> seconds_per_byte);

  int ranks() const { return ranks_; }
  bool differ() const;
  // Seconds for each byte. Requires a != b.
  double link(int a, int b) const;
  // Those of a rank's fastest link: what all streams that pass its port one way share. 0 for a single rank.
  double port(int rank) const;

  // The same proportions, with `beta` as the slowest link along the ranks 0, 1, 2, ...: what the pipelines that a calibration runs
  // along them take for each byte.
  LinkRates scaled_to(double beta) const;
  // Those between some of the ranks; `ranks[i]` becomes rank i. At least one.
  LinkRates between(std::span<const int> ranks) const;

  // "rank 2 has links of 31.2 MB/s, the others of up to 125 MB/s"; "links have 31.2 MB/s to 125 MB/s" when no single rank is slow.
  std::string text() const;

 private:
  LinkRates(int ranks, double fastest) : ranks_(ranks), fastest_(fastest) {}
  std::size_t at(int a, int b) const;

  int ranks_;
  double fastest_;          // seconds for each byte of a link of 0 steps
  std::vector<int> steps_;  // by pair of ranks, like seconds_per_byte
};

}  // namespace paceline::collectives
