#include "collectives/plan/chain_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace paceline::collectives {
namespace {

// Sums of the same numbers in another order differ in their last bits.
bool at_most(double a, double b) { return a <= b * (1 + 1e-9); }
bool below(double a, double b) { return !at_most(b, a); }
bool better(const ChainSeconds& a, const ChainSeconds& b) {
  if (below(a.flow, b.flow)) return true;
  return at_most(a.flow, b.flow) && below(a.fill, b.fill);
}

// A chain with its links and ports looked up once. Ranks are named by their place in the ranks' own order. Every chain begins with
// the root, if there is one: a reduce runs along the same links the other way.
class Chains {
 public:
  Chains(Operation operation, const std::vector<int>& own, const LinkRates& rates)
      : rooted_(operation != Operation::kAllreduce), ranks_(static_cast<int>(own.size())) {
    for (const int a : own) {
      port_.push_back(rooted_ ? 0
                              : rates.port(a));  // a broadcast passes a port once each way, and no port is slower than its links
      for (const int b : own) link_.push_back(a == b ? 0 : rates.link(a, b));
    }
  }

  int ranks() const { return ranks_; }
  bool rooted() const { return rooted_; }
  double link(int a, int b) const {
    return link_[static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(b)];
  }
  double end(int a) const { return port_[static_cast<std::size_t>(a)]; }
  double inner(int a) const { return 2 * port_[static_cast<std::size_t>(a)]; }

  ChainSeconds seconds(std::span<const int> order) const {
    ChainSeconds seconds;
    if (ranks_ == 1) return seconds;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool is_end = i == 0 || i + 1 == order.size();
      seconds.flow = std::max(seconds.flow, is_end ? end(order[i]) : inner(order[i]));
      if (i == 0) continue;
      seconds.flow = std::max(seconds.flow, link(order[i - 1], order[i]));
      seconds.fill += (rooted_ ? 1 : 2) * link(order[i - 1], order[i]);
    }
    return seconds;
  }

 private:
  bool rooted_;
  int ranks_;
  std::vector<double> link_, port_;
};

// The best of all orders, by what is left to do: for every set of ranks that the chain has passed and the rank where it stands, the
// least flow of the rest; then, among steps within the least flow, the least fill.
class ExactSearch {
 public:
  explicit ExactSearch(const Chains& chains)
      : chains_(chains), sets_(1U << chains.ranks()), flow_(sets_ * width()), fill_(sets_ * width()) {}

  std::vector<int> run() {
    for (unsigned set = sets_ - 1; set > 0; --set) {
      for (int last = 0; last < chains_.ranks(); ++last) {
        if (set >> last & 1U) flow_[at(set, last)] = least_flow(set, last);
      }
    }
    limit_ = kNone;
    for (const int first : firsts()) limit_ = std::min(limit_, flow_[at(1U << first, first)]);
    for (unsigned set = sets_ - 1; set > 0; --set) {
      for (int last = 0; last < chains_.ranks(); ++last) {
        if (set >> last & 1U) fill_[at(set, last)] = least_fill(set, last);
      }
    }
    return follow();
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  std::size_t width() const { return static_cast<std::size_t>(chains_.ranks()); }
  std::size_t at(unsigned set, int last) const { return set * width() + static_cast<std::size_t>(last); }
  std::vector<int> firsts() const {
    std::vector<int> all(chains_.rooted() ? 1 : width());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // What the port of `last` takes, where it stands.
  double port(unsigned set, int last) const {
    return std::has_single_bit(set) || set + 1 == sets_ ? chains_.end(last) : chains_.inner(last);
  }

  double least_flow(unsigned set, int last) const {
    if (set + 1 == sets_) return port(set, last);
    double least = kNone;
    for (int next = 0; next < chains_.ranks(); ++next) {
      if (set >> next & 1U) continue;
      least = std::min(least, std::max(chains_.link(last, next), flow_[at(set | 1U << next, next)]));
    }
    return std::max(least, port(set, last));
  }

  double least_fill(unsigned set, int last) const {
    if (!at_most(port(set, last), limit_)) return kNone;
    if (set + 1 == sets_) return 0;
    double least = kNone;
    for (int next = 0; next < chains_.ranks(); ++next) {
      if (!(set >> next & 1U)) least = std::min(least, fill_through(set, last, next));
    }
    return least;
  }

  double fill_through(unsigned set, int last, int next) const {
    if (!at_most(chains_.link(last, next), limit_)) return kNone;
    return chains_.link(last, next) + fill_[at(set | 1U << next, next)];
  }

  std::vector<int> follow() const {
    std::vector<int> order;
    double least = kNone;
    for (const int first : firsts()) least = std::min(least, fill_[at(1U << first, first)]);
    for (const int first : firsts()) {
      if (order.empty() && at_most(fill_[at(1U << first, first)], least)) order.push_back(first);
    }
    unsigned set = 1U << order.front();
    while (order.size() < width()) {
      const int last = order.back();
      for (int next = 0; next < chains_.ranks(); ++next) {
        if ((set >> next & 1U) || !at_most(fill_through(set, last, next), fill_[at(set, last)])) continue;
        order.push_back(next);
        set |= 1U << next;
        break;
      }
    }
    return order;
  }

  const Chains& chains_;
  unsigned sets_;
  std::vector<double> flow_, fill_;  // of what is left, by set and last rank
  double limit_ = kNone;             // the flow of the best order
};

// Takes the best of all moves of one rank and turns of one stretch until none is an improvement.
std::vector<int> improved(const Chains& chains, std::vector<int> order) {
  const std::size_t first = chains.rooted() ? 1 : 0;
  ChainSeconds now = chains.seconds(order);
  while (true) {
    std::vector<int> best;
    const auto look_at = [&](const std::vector<int>& candidate) {
      const ChainSeconds seconds = chains.seconds(candidate);
      if (!better(seconds, now)) return;
      now = seconds;
      best = candidate;
    };
    for (std::size_t i = first; i < order.size(); ++i) {
      for (std::size_t j = first; j < order.size(); ++j) {
        const auto from = order.begin() + static_cast<std::ptrdiff_t>(i), to = order.begin() + static_cast<std::ptrdiff_t>(j);
        if (i == j) continue;
        std::vector<int> moved = order;
        const auto begin = moved.begin() + (std::min(from, to) - order.begin());
        const auto end = moved.begin() + (std::max(from, to) - order.begin()) + 1;
        i < j ? std::rotate(begin, begin + 1, end) : std::rotate(begin, end - 1, end);
        look_at(moved);
        if (j < i) continue;
        std::vector<int> turned = order;
        std::reverse(turned.begin() + (from - order.begin()), turned.begin() + (to - order.begin()) + 1);
        look_at(turned);
      }
    }
    if (best.empty()) return order;
    order = std::move(best);
  }
}

// Faster ranks first; of an allreduce the slowest two stand at the ends.
std::vector<int> by_speed(const Chains& chains, const LinkRates& rates, const std::vector<int>& own) {
  std::vector<int> order(own.size());
  std::iota(order.begin(), order.end(), 0);
  const auto faster = [&](int a, int b) {
    return rates.port(own[static_cast<std::size_t>(a)]) < rates.port(own[static_cast<std::size_t>(b)]);
  };
  std::stable_sort(order.begin() + (chains.rooted() ? 1 : 0), order.end(), faster);
  if (!chains.rooted()) std::rotate(order.begin(), order.end() - 2, order.end() - 1);
  return order;
}

std::vector<int> searched(const Chains& chains, const LinkRates& rates, const std::vector<int>& own) {
  std::vector<int> order(own.size());
  std::iota(order.begin(), order.end(), 0);
  order = improved(chains, std::move(order));
  std::vector<int> other = improved(chains, by_speed(chains, rates, own));
  return better(chains.seconds(other), chains.seconds(order)) ? other : order;
}

}  // namespace

std::vector<int> own_order(Operation operation, int ranks, int root) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  if (operation == Operation::kBroadcast) std::rotate(order.begin(), order.begin() + root, order.end());
  if (operation == Operation::kReduce) std::rotate(order.begin(), order.begin() + (root + 1) % ranks, order.end());
  return order;
}

ChainSeconds chain_seconds(Operation operation, std::span<const int> order, const LinkRates& rates) {
  std::vector<int> positions(order.size());
  std::iota(positions.begin(), positions.end(), 0);
  return Chains(operation, {order.begin(), order.end()}, rates).seconds(positions);
}

std::vector<int> best_order(Operation operation, int root, const LinkRates& rates) {
  const bool to_root = operation == Operation::kReduce;
  std::vector<int> own = own_order(operation, rates.ranks(), root);
  if (to_root) std::reverse(own.begin(), own.end());
  if (rates.ranks() <= 2) return own_order(operation, rates.ranks(), root);
  const Chains chains(operation, own, rates);
  std::vector<int> order = rates.ranks() <= kMostRanksExact ? ExactSearch(chains).run() : searched(chains, rates, own);
  for (int& rank : order) rank = own[static_cast<std::size_t>(rank)];
  if (to_root) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace paceline::collectives
