// Who of many has the least key, where one key changes at a time, and who has it of those that fit. Pure; owned by whoever asks.
//
// Cost: O(log n) for a change, less where it changes no winner; O(log n) for each player that a question has to look at. No
// allocation but in grow().
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::scheduling {

// `Key`: ordered by <, copied; no two are equal, or it does not matter which of them wins.
template <typename Key>
class Tournament {
 public:
  std::size_t size() const { return keys_.size(); }

  // As many more without a key as make `size` players.
  void grow(std::size_t size) {
    keys_.resize(size);
    std::size_t inner = 1;
    while (inner < size) inner *= 2;
    winners_.assign(inner, kNobody);
    for (std::uint32_t player = 0; player < size; ++player) play(player);
  }

  // Nothing: the player does not take part.
  void set(std::uint32_t player, const std::optional<Key>& key) {
    if (keys_[player] == key) return;
    keys_[player] = key;
    play(player);
  }

  // The player with the least key of those for whom fits(player).
  template <typename Fits>
  std::optional<std::uint32_t> first(Fits fits) const {
    std::uint32_t best = kNobody;
    look_for(1, fits, best);
    if (best == kNobody) return std::nullopt;
    return best;
  }

  // each(player), in any order, for those whose keys come before `bound`.
  template <typename Each>
  void each_before(const Key& bound, Each each) const {
    visit(1, bound, each);
  }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // The sons of a node are 2 * node and the next one; behind the inner nodes stand the players.
  bool is_player(std::size_t node) const { return node >= winners_.size(); }
  std::uint32_t winner_of(std::size_t node) const {
    if (!is_player(node)) return winners_[node];
    const std::size_t player = node - winners_.size();
    return player < keys_.size() && keys_[player] ? static_cast<std::uint32_t>(player) : kNobody;
  }
  bool beats(std::uint32_t a, std::uint32_t b) const { return b == kNobody || (a != kNobody && *keys_[a] < *keys_[b]); }

  void play(std::uint32_t changed) {
    for (std::size_t node = (winners_.size() + changed) / 2; node > 0; node /= 2) {
      const std::uint32_t a = winner_of(2 * node), b = winner_of(2 * node + 1);
      const std::uint32_t winner = beats(a, b) ? a : b;
      if (std::exchange(winners_[node], winner) == winner && winner != changed) return;
    }
  }

  template <typename Fits>
  void look_for(std::size_t node, Fits& fits, std::uint32_t& best) const {
    const std::uint32_t winner = winner_of(node);
    if (winner == kNobody || !beats(winner, best)) return;
    if (fits(winner)) {
      best = winner;
    } else if (!is_player(node)) {
      look_for(2 * node, fits, best);
      look_for(2 * node + 1, fits, best);
    }
  }

  template <typename Each>
  void visit(std::size_t node, const Key& bound, Each& each) const {
    const std::uint32_t winner = winner_of(node);
    if (winner == kNobody || !(*keys_[winner] < bound)) return;
    if (is_player(node)) return each(winner);
    visit(2 * node, bound, each);
    visit(2 * node + 1, bound, each);
  }

  std::vector<std::optional<Key>> keys_;
  std::vector<std::uint32_t> winners_;  // of inner nodes; that of node 1 has won all
};

}  // namespace paceline::scheduling
