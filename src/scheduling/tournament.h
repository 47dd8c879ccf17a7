// Which of many has the least key, where one key changes at a time. Pure; owned by whoever asks.
//
// Cost: O(log n) for a change, less where it changes no winner; O(1) to ask. No allocation but in grow().
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::scheduling {

// `Key`: ordered, copied; of several least ones any may win.
template <typename Key>
class Tournament {
 public:
  std::size_t size() const { return keys_.size(); }

  // As many more without a key as make `size` players.
  void grow(std::size_t size) {
    keys_.resize(size);
    std::size_t leaves = 1;
    while (leaves < size) leaves *= 2;
    winners_.assign(leaves, kNobody);
    for (std::uint32_t player = 0; player < size; ++player) play(player);
  }

  void set(std::uint32_t player, const std::optional<Key>& key) {
    if (keys_[player] == key) return;
    keys_[player] = key;
    play(player);
  }

  std::optional<std::uint32_t> first() const {
    const std::uint32_t winner = winners_.size() > 1 ? winners_[1] : 0;
    if (keys_.empty() || winner == kNobody || !keys_[winner]) return std::nullopt;
    return winner;
  }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // A node's sons are 2 * node and the next one; behind the inner nodes stand the players.
  std::uint32_t winner_of(std::size_t node) const {
    if (node < winners_.size()) return winners_[node];
    const std::size_t player = node - winners_.size();
    return player < keys_.size() && keys_[player] ? static_cast<std::uint32_t>(player) : kNobody;
  }

  void play(std::uint32_t changed) {
    for (std::size_t node = (winners_.size() + changed) / 2; node > 0; node /= 2) {
      const std::uint32_t a = winner_of(2 * node), b = winner_of(2 * node + 1);
      const std::uint32_t winner = b == kNobody || (a != kNobody && !(*keys_[b] < *keys_[a])) ? a : b;
      if (std::exchange(winners_[node], winner) == winner && winner != changed) return;
    }
  }

  std::vector<std::optional<Key>> keys_;
  std::vector<std::uint32_t> winners_;  // of inner nodes; 1 is the last match
};

}  // namespace paceline::scheduling
