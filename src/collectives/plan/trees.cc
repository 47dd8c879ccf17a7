// Binomial trees: in the round of distance d, positions below d talk to positions d higher.
#include "collectives/plan/rank_builder.h"

namespace paceline::collectives {
namespace {

std::int64_t rounds_in(const RankBuilder& builder) { return doubling_rounds(builder.ranks()); }

// What travels over the edge from `parent` to `parent + distance`.
enum class Load { kMessage, kSubtreesParts };

Place load_of(const RankBuilder& builder, Load load, int child, int distance) {
  if (load == Load::kMessage) return builder.parts(0, builder.ranks());
  return builder.parts(child, std::min(distance, builder.ranks() - child));
}

// The edge of this position in the round of distance d: to a child, to its parent, or none yet.
struct Edge {
  bool to_child;
  bool to_parent;
  int peer;
};

Edge edge_of(const RankBuilder& builder, int distance, Load load) {
  const int position = builder.position();
  if (load == Load::kMessage) {
    // Doubling: those that have the message are the positions below d.
    const bool child = position < distance && position + distance < builder.ranks();
    const bool parent = position >= distance && position < 2 * distance;
    return {child, parent, child ? position + distance : position - distance};
  }
  // Halving: those that have their subtree's parts are the multiples of 2d.
  const bool child = position % (2 * distance) == 0 && position + distance < builder.ranks();
  const bool parent = position % (2 * distance) == distance;
  return {child, parent, child ? position + distance : position - distance};
}

std::int64_t downward(RankBuilder& builder, std::int64_t start, Load load) {
  const std::int64_t rounds = rounds_in(builder);
  for (std::int64_t i = 0; i < rounds; ++i) {
    builder.start_round(start + i);
    const int distance = 1 << (load == Load::kMessage ? i : rounds - 1 - i);
    const Edge edge = edge_of(builder, distance, load);
    if (edge.to_child) builder.send(edge.peer, load_of(builder, load, edge.peer, distance));
    if (edge.to_parent) builder.receive(edge.peer, load_of(builder, load, builder.position(), distance));
  }
  return start + rounds;
}

// The same edges the other way round, in the reverse order.
std::int64_t upward(RankBuilder& builder, std::int64_t start, Load load) {
  const std::int64_t rounds = rounds_in(builder);
  for (std::int64_t i = 0; i < rounds; ++i) {
    builder.start_round(start + i);
    const int distance = 1 << (load == Load::kMessage ? rounds - 1 - i : i);
    const Edge edge = edge_of(builder, distance, load);
    if (edge.to_parent) builder.send(edge.peer, load_of(builder, load, builder.position(), distance));
    if (!edge.to_child) continue;
    const Place arriving = load_of(builder, load, edge.peer, distance);
    if (load == Load::kMessage) {
      builder.receive_and_reduce(edge.peer, arriving);
    } else {
      builder.receive(edge.peer, arriving);
    }
  }
  return start + rounds;
}

}  // namespace

std::int64_t tree_broadcast(RankBuilder& builder, std::int64_t start) { return downward(builder, start, Load::kMessage); }
std::int64_t tree_reduce(RankBuilder& builder, std::int64_t start) { return upward(builder, start, Load::kMessage); }
std::int64_t tree_scatter(RankBuilder& builder, std::int64_t start) { return downward(builder, start, Load::kSubtreesParts); }
std::int64_t tree_gather(RankBuilder& builder, std::int64_t start) { return upward(builder, start, Load::kSubtreesParts); }

}  // namespace paceline::collectives
