// P3's figures 4 and 6, stepped by hand: in every time unit a link moves one chunk each way, chosen by the queues that jobs use.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scheduling/egress_queue.h"

namespace paceline::scheduling {
namespace {

// One time unit on the link.
constexpr Bytes kUnit{100};

EgressQueue link_queue(Order order, EgressQueue::Destination& to) {
  EgressQueue queue({.order = order, .window = kUnit * 8, .chunk = kUnit});
  to = queue.add();
  queue.resume(to);
  return queue;
}

// Figure 4: three layers, each computes for one unit forward and one backward, and takes two units to synchronise. Backward begins
// at 0 with layer 3.
struct Figure4 {
  std::string link;                 // which layer is synchronised in each unit, from time 1
  std::map<int, int> synchronised;  // by layer: when
  int begins = 0, ends = 0;         // the next forward pass
};

Figure4 figure_4(Order order) {
  EgressQueue::Destination to = 0;
  EgressQueue queue = link_queue(order, to);
  Figure4 figure;
  for (int time = 1; figure.synchronised.size() < 3; ++time) {
    if (time <= 3) {
      const int layer = 4 - time;
      queue.on_ready({.destination = to, .layer = {layer}, .size = kUnit * 2, .tag = static_cast<std::uint64_t>(layer)});
    }
    const auto chunk = queue.take();
    if (!chunk) continue;
    queue.on_acknowledged(to, chunk->size);
    figure.link += std::to_string(chunk->tag);
    if (chunk->offset + chunk->size == kUnit * 2) figure.synchronised[static_cast<int>(chunk->tag)] = time + 1;
  }
  figure.begins = figure.ends = figure.synchronised[1];
  for (int layer = 1; layer <= 3; ++layer) figure.ends = std::max(figure.ends, figure.synchronised[layer]) + 1;
  return figure;
}

TEST(P3Figures, Figure4PriorityHalvesTheDelayBetweenTwoIterations) {
  constexpr int kBackwardEnds = 3;
  const Figure4 first_come = figure_4(Order::kFirstInFirstOut), by_layer = figure_4(Order::kByLayer);
  EXPECT_EQ(first_come.link, "332211");
  EXPECT_EQ(first_come.begins - kBackwardEnds, 4) << "twice what layer 1 takes to be synchronised";
  EXPECT_EQ(first_come.ends, 10);
  EXPECT_EQ(by_layer.link, "321123");
  EXPECT_EQ(by_layer.begins - kBackwardEnds, 2) << "half of it";
  EXPECT_EQ(by_layer.ends, 8) << "layers 2 and 3 arrive while the layer before them computes";
}

// Figure 6: of three layers, the second takes thrice as long as the others to push, to update and to come back; all gradients are
// there at time 0, layer 3's first. Layers update beside each other.
struct Slice {
  int layer = 0;
  int units = 0;
};

int figure_6(const std::vector<Slice>& slices) {
  EgressQueue::Destination to_server = 0, to_worker = 0;
  EgressQueue pushes = link_queue(Order::kFirstInFirstOut, to_server), replies = link_queue(Order::kFirstInFirstOut, to_worker);
  for (std::size_t tag = 0; tag < slices.size(); ++tag)
    pushes.on_ready({.destination = to_server, .layer = {slices[tag].layer}, .size = kUnit * slices[tag].units, .tag = tag});
  std::multimap<int, std::size_t> updated;  // when, which
  std::size_t back = 0;
  int time = 0;
  for (; back < slices.size(); ++time) {
    for (auto done = updated.begin(); done != updated.end() && done->first <= time; done = updated.erase(done)) {
      const Slice& slice = slices[done->second];
      replies.on_ready({.destination = to_worker,
                        .layer = {slice.layer},
                        .size = kUnit * slice.units,
                        .tag = done->second,
                        .flow = Flow::kReply});
    }
    if (const auto chunk = pushes.take()) {
      pushes.on_acknowledged(to_server, chunk->size);
      const int units = slices[chunk->tag].units;
      if (chunk->offset + chunk->size == kUnit * units) updated.emplace(time + 1 + units, chunk->tag);
    }
    if (const auto chunk = replies.take()) {
      replies.on_acknowledged(to_worker, chunk->size);
      if (chunk->offset + chunk->size == kUnit * slices[chunk->tag].units) ++back;
    }
  }
  return time;
}

TEST(P3Figures, Figure6SlicesUseBothDirectionsAndTheServerAtOnce) {
  EXPECT_EQ(figure_6({{3, 1}, {2, 3}, {1, 1}}), 10) << "the last three units only bring layer 2 back";
  EXPECT_EQ(figure_6({{3, 1}, {2, 1}, {2, 1}, {2, 1}, {1, 1}}), 7) << "30 % less";
}

}  // namespace
}  // namespace paceline::scheduling
