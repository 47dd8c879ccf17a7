// Phases in which every position does the same, seen from itself: circulant exchange, ring and direct. Any number of ranks.
#include "collectives/plan/rank_builder.h"

namespace paceline::collectives {
namespace {

// Circulant allgather (Bruck): before a round, each position holds the `held` parts from its own on; it gets the `gained` parts
// that follow from the position `held` further on. Twice as many after each round, the rest in the last: the least rounds and the
// least bytes for any number of ranks. The reduce-scatter is the same backward: sums flow where parts came from.
struct Exchange {
  int held;
  int gained;
};

Exchange exchange_at(int ranks, std::int64_t round) {
  const int held = 1 << round;
  return {held, std::min(held, ranks - held)};
}

}  // namespace

std::int64_t circulant_allgather(RankBuilder& builder, std::int64_t start) {
  const int me = builder.position();
  const Circle& circle = builder.circle();
  const std::int64_t rounds = doubling_rounds(builder.ranks());
  for (std::int64_t i = 0; i < rounds; ++i) {
    builder.start_round(start + i);
    const auto [held, gained] = exchange_at(builder.ranks(), i);
    const int further = circle.after(me, held);
    builder.send(circle.before(me, held), builder.parts(me, gained));
    builder.receive(further, builder.parts(further, gained));
  }
  return start + rounds;
}

std::int64_t circulant_reduce_scatter(RankBuilder& builder, std::int64_t start) {
  const int me = builder.position();
  const Circle& circle = builder.circle();
  const std::int64_t rounds = doubling_rounds(builder.ranks());
  for (std::int64_t i = 0; i < rounds; ++i) {
    builder.start_round(start + i);
    const auto [held, gained] = exchange_at(builder.ranks(), rounds - 1 - i);
    const int further = circle.after(me, held);
    builder.send(further, builder.parts(further, gained));
    builder.receive_and_reduce(circle.before(me, held), builder.parts(me, gained));
  }
  return start + rounds;
}

std::int64_t ring_reduce_scatter(RankBuilder& builder, std::int64_t start) {
  const int me = builder.position();
  const Circle& circle = builder.circle();
  const int others = builder.ranks() - 1;
  for (int i = 0; i < others; ++i) {
    builder.start_round(start + i);
    // The sum of the own part arrives last.
    builder.send(circle.after(me, 1), builder.parts(circle.before(me, i + 1), 1));
    builder.receive_and_reduce(circle.before(me, 1), builder.parts(circle.before(me, i + 2), 1));
  }
  return start + others;
}

std::int64_t ring_allgather(RankBuilder& builder, std::int64_t start) {
  const int me = builder.position();
  const Circle& circle = builder.circle();
  const int others = builder.ranks() - 1;
  for (int i = 0; i < others; ++i) {
    builder.start_round(start + i);
    builder.send(circle.after(me, 1), builder.parts(circle.before(me, i), 1));
    builder.receive(circle.before(me, 1), builder.parts(circle.before(me, i + 1), 1));
  }
  return start + others;
}

std::int64_t direct_reduce_scatter(RankBuilder& builder, std::int64_t start) {
  const int me = builder.position();
  const Circle& circle = builder.circle();
  const int others = builder.ranks() - 1;
  const Place own = builder.parts(me, 1);
  // One slot of scratch memory for each other position, in order of position.
  const auto slot_of = [&](int position) {
    return RankBuilder::scratch((position < me ? position : position - 1) * own.count(), own.count());
  };
  for (int distance = 1; distance <= others; ++distance) {
    builder.start_round(start + distance - 1);
    const int to = circle.after(me, distance);
    const int from = circle.before(me, distance);
    builder.send(to, builder.parts(to, 1));
    builder.receive(from, slot_of(from));
  }
  // ((part of 0 + part of 1) + part of 2) + ...: the sum grows in the place of the first term.
  const Place sum = me == 0 ? own : slot_of(0);
  for (int position = 1; position < builder.ranks(); ++position) builder.reduce(position == me ? own : slot_of(position), sum);
  if (me != 0) builder.copy(sum, own);
  return start + others;
}

}  // namespace paceline::collectives
