// Linear pipeline: position i passes block k on while it receives block k + 1.
#include "collectives/plan/rank_builder.h"

namespace paceline::collectives {
namespace {

struct Blocks {
  explicit Blocks(const PlanRequest& request) : elements(request.elements), size(request.block) {}

  std::int64_t count() const { return elements / size + (elements % size > 0 ? 1 : 0); }
  Place at(std::int64_t k) const { return {Memory::kBuffer, {k * size, std::min(size, elements - k * size)}, {}}; }

  std::int64_t elements;
  std::int64_t size;
};

// When block k starts up the chain and when its sum starts down, in rounds from 0. Every rank passes on what it has received in the
// next round, so block k is at position i at up(k) + i, and its sum at position i at down(k) + (ranks - 1 - i). Ranks between the
// ends carry both streams: their ports are free for both when up and down stand at different parity. The first block may leave a
// round early, since nothing comes down yet, and the last sum too, since nothing goes up any more: 2K + 2p - 5 rounds in all.
struct Timetable {
  std::int64_t ranks;
  std::int64_t blocks;

  std::int64_t up(std::int64_t k) const {
    if (ranks == 2) return k;
    return k == 0 ? 0 : 2 * k - 1;
  }
  std::int64_t down(std::int64_t k) const {
    if (ranks == 2) return k + 1;
    const bool earliest = k == 0 || k + 1 == blocks;
    return up(k) + ranks - 1 + (earliest ? 0 : 1);
  }
};

// One stream down the chain: in each round a position passes on the block that it received in the round before. `receive` takes a
// block from the position before.
template <typename Receive>
std::int64_t stream(RankBuilder& builder, const PlanRequest& request, std::int64_t start, Receive receive) {
  const Blocks blocks(request);
  const int position = builder.position();
  const std::int64_t rounds = pipeline_steps(request.operation, builder.ranks(), blocks.count());
  for (std::int64_t round = 0; round < rounds; ++round) {
    builder.start_round(start + round);
    const std::int64_t outgoing = round - position;
    const std::int64_t incoming = outgoing + 1;
    if (position + 1 < builder.ranks() && outgoing >= 0 && outgoing < blocks.count())
      builder.send(position + 1, blocks.at(outgoing));
    if (position > 0 && incoming >= 0 && incoming < blocks.count()) receive(blocks.at(incoming));
  }
  return start + rounds;
}

}  // namespace

std::int64_t pipeline_broadcast(RankBuilder& builder, const PlanRequest& request, std::int64_t start) {
  return stream(builder, request, start, [&](const Place& block) { builder.receive(builder.position() - 1, block); });
}

std::int64_t pipeline_reduce(RankBuilder& builder, const PlanRequest& request, std::int64_t start) {
  return stream(builder, request, start, [&](const Place& block) { builder.receive_and_reduce(builder.position() - 1, block); });
}

std::int64_t pipeline_allreduce(RankBuilder& builder, const PlanRequest& request, std::int64_t start) {
  const Blocks blocks(request);
  const int position = builder.position();
  const int last = builder.ranks() - 1;
  const Timetable times{builder.ranks(), blocks.count()};
  const std::int64_t rounds = pipeline_steps(Operation::kAllreduce, builder.ranks(), blocks.count());
  // The next block of each stream into and out of this position.
  std::int64_t up_out = 0, up_in = 0, down_out = 0, down_in = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    builder.start_round(start + round);
    const auto is_due = [&](std::int64_t next, std::int64_t when) { return next < blocks.count() && when == round; };
    if (position < last && is_due(up_out, times.up(up_out) + position)) builder.send(position + 1, blocks.at(up_out++));
    if (position > 0 && is_due(down_out, times.down(down_out) + last - position)) builder.send(position - 1, blocks.at(down_out++));
    if (position < last && is_due(down_in, times.down(down_in) + last - position - 1))
      builder.receive(position + 1, blocks.at(down_in++));
    if (position > 0 && is_due(up_in, times.up(up_in) + position - 1)) builder.receive_and_reduce(position - 1, blocks.at(up_in++));
  }
  return start + rounds;
}

}  // namespace paceline::collectives
