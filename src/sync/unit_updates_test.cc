#include "sync/unit_updates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace paceline::sync {
namespace {

struct Applied {
  std::int32_t unit = 0;
  Iteration iteration = 0;
  std::vector<Rank> workers;
  double scale = 1;
  bool operator==(const Applied&) const = default;
};

std::vector<Applied> kept(const std::vector<Update>& updates) {
  std::vector<Applied> all;
  for (const Update& update : updates)
    all.push_back({update.unit, update.iteration, {update.workers.begin(), update.workers.end()}, update.scale});
  return all;
}

// Remembers every push ever made, and looks through all of them after each event.
class Twin {
 public:
  Twin(Iteration summed_until, GradientScale scale) : summed_until_(summed_until), scale_(scale) {}

  void on_joined(Rank worker, Iteration first) { live_[worker] = first; }
  std::vector<Applied> on_left(Rank worker) {
    live_.erase(worker);
    return released();
  }
  std::vector<Applied> on_push(Rank worker, std::int32_t unit, Iteration iteration) {
    newest_ = iteration <= summed_until_ ? std::max(newest_, iteration) : newest_;
    if (iteration > summed_until_) {
      return {{unit, iteration, {worker}, scale_ == GradientScale::kMean ? 1.0 / static_cast<double>(live_.size()) : 1.0}};
    }
    waiting_[{iteration, unit}].insert(worker);
    pushed_.insert({worker, unit, iteration});
    return released();
  }
  Iteration newest() const { return newest_; }

 private:
  std::vector<Applied> released() {
    std::vector<Applied> all;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const auto [iteration, unit] = at->first;
      const bool complete = std::ranges::all_of(live_, [&](const auto& worker) {
        return worker.second > iteration || pushed_.contains({worker.first, unit, iteration});
      });
      if (!complete) {
        ++at;
        continue;
      }
      const double scale = scale_ == GradientScale::kFull ? 1.0 : 1.0 / static_cast<double>(at->second.size());
      all.push_back({unit, iteration, {at->second.begin(), at->second.end()}, scale});
      at = waiting_.erase(at);
    }
    return all;
  }

  Iteration summed_until_;
  GradientScale scale_;
  std::map<Rank, Iteration> live_;  // and their first iterations
  std::map<std::pair<Iteration, std::int32_t>, std::set<Rank>> waiting_;
  std::set<std::tuple<Rank, std::int32_t, Iteration>> pushed_;
  Iteration newest_ = 0;
};

TEST(UnitUpdates, GiveWhatLookingThroughAllPushesGivesWhoeverLeavesAndComesBack) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto units = static_cast<std::int32_t>(1 + random() % 3);
    const Iteration summed_until = seed % 3 == 0 ? static_cast<Iteration>(random() % 6) : std::numeric_limits<Iteration>::max();
    const auto scale = static_cast<GradientScale>(random() % 3);
    UnitUpdates fast(units, summed_until, scale);
    Twin slow(summed_until, scale);
    std::map<Rank, std::vector<Iteration>> live;  // the last iteration of each unit
    std::vector<Update> updates;
    for (int step = 0; step < 120; ++step) {
      const Rank worker{static_cast<std::int32_t>(random() % 4)};
      const bool takes_part = live.contains(worker);
      updates.clear();
      if (!takes_part) {
        if (random() % 4 != 0) continue;
        Iteration first = 1;  // after everything that anybody has pushed, now and then by far
        for (const auto& [rank, pushed] : live) first = std::max(first, *std::ranges::max_element(pushed) + 1);
        first = std::max(first, slow.newest() + 1);
        if (random() % 8 == 0) first += 1'000'000'000'000;
        fast.on_joined(worker, first);
        slow.on_joined(worker, first);
        live[worker] = std::vector<Iteration>(static_cast<std::size_t>(units), first - 1);
      } else if (random() % 12 == 0) {
        live.erase(worker);
        fast.on_left(worker, updates);
        ASSERT_EQ(kept(updates), slow.on_left(worker)) << "step " << step;
      } else {
        const auto unit = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(units));
        const Iteration iteration = ++live[worker][static_cast<std::size_t>(unit)];
        ASSERT_TRUE(fast.on_push(worker, unit, iteration, updates).ok());
        ASSERT_EQ(kept(updates), slow.on_push(worker, unit, iteration)) << "step " << step;
      }
      ASSERT_EQ(fast.newest_summed(), slow.newest());
    }
  }
}

TEST(UnitUpdates, StandBehindWhatTheCallerHadAlready) {
  UnitUpdates updates_of(1, 0, GradientScale::kOfModel);
  updates_of.on_joined(Rank{0}, 1);
  std::vector<Update> updates(1);
  ASSERT_TRUE(updates_of.on_push(Rank{0}, 0, 1, updates).ok());
  EXPECT_EQ(updates.size(), 2U);
}

}  // namespace
}  // namespace paceline::sync
