// Chooses which chunk of which unit leaves a node next, and to whom. Pure: no thread, clock or I/O, so the runtime and the
// simulator run the same object. Owned by one progress loop.
//
// Order: within a flow (scheduling/schedule.h) by layer, or by the sequence of becoming ready (P3, section 4.2). Of units of one
// layer for several destinations (first in, first out: of all units) a chunk goes where the fewest bytes are on their way, so that
// a layer of large slices reaches all nodes evenly: were it sent to one after the other, nodes out of step would meet at one of
// them and wait there. Systems without priorities, which send over each connection by itself, are even in the same way. Within a
// destination, and if that does not decide, the sequence does. The steps of a plan leave by their turns. Layers below 0, the
// control plane's, come before all others. A unit leaves in chunks, and a more urgent unit overtakes between two chunks. A chunk
// that has been taken is never recalled, so an urgent unit waits at most for the window's bytes that left before it. Where the
// window holds four chunks, a tail of up to half a chunk leaves with the chunk before it: a message less for the processors of both
// ends.
//
// Between the two flows the earlier iteration leaves first: a worker waits for its value now, while a gradient of the next
// iteration is for later, and if its lower layer let it go first, the workers that are ahead would starve the others: a stable
// anti-phase, by which VGG-19 would lose half of a link. Then the lower layer, and of equal ones, chunk by chunk, the flow that did
// not leave last. Where one of the flows or both are not ordered by layer they take turns whatever they are. With
// EgressRules::pushes_first the pushes of an iteration leave before its replies, whatever their layers and orders.
//
// Window and shares. At most `window` bytes are on their way, unacknowledged, to all destinations together; at most `wide` while
// two or more of them hold a chunk each, for a window that is full of what is for a busy node leaves the link idle, and the more so
// the sooner the link has moved it. With n destinations that have something to send or on its way, one of them may hold at most
//     share(1) = window,   share(n) = min(max(2 chunks, 2 * w / n), w - chunk),   w = window or wide,
// so one slow destination never fills the window, and a silent one takes nothing of it. When a share shrinks because another
// destination wakes up, what a destination already holds above its new share is not counted against the others: they need not wait
// for the slow one. Only then may more than `window` bytes be on their way, until those are acknowledged.
//
// Cost: O(log destinations + layers) per decision, and O(log destinations) more for each destination that is passed over because
// its share is full; well under 2 us with 10^6 units waiting; no allocation once warm.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "base/quantity.h"
#include "scheduling/schedule.h"
#include "scheduling/tournament.h"
#include "scheduling/waiting_units.h"

namespace paceline::scheduling {

struct EgressOptions {
  Order order = Order::kByLayer;  // of both flows
  Bytes window = kStartWindow;    // at least two chunks, otherwise the link idles between acknowledgements
  Bytes wide;                     // less than `window` (0): as much as that
  Bytes chunk = kLargestChunk;    // at least 1 byte; one with a unit's tail is up to half as large again
};

class EgressQueue {
 public:
  using Destination = EgressUnit::Destination;  // small numbers, used again after remove()
  using Unit = EgressUnit;

  struct Chunk {
    Destination destination = 0;
    std::uint64_t tag = 0;
    Bytes offset;
    Bytes size;
  };

  // Requires: chunk >= 1, window >= 2 chunks.
  explicit EgressQueue(EgressOptions options);

  // A new destination, paused.
  Destination add();
  // Forgets what waits for it and what is on its way to it.
  void remove(Destination destination);
  // A paused destination gets no chunks; what is on its way to it stays counted.
  void pause(Destination destination);
  void resume(Destination destination);

  // The unit may leave. O(log layers), O(layers) for the first unit of a layer.
  void on_ready(const Unit& unit);

  // The next chunk to put on the wire, or nothing: nothing is ready, or there is no room. It counts as on its way from here on.
  [[nodiscard]] std::optional<Chunk> take();

  // The destination has received a chunk of `size` bytes. Requires: taken before, acknowledged once.
  void on_acknowledged(Destination destination, Bytes size);

  // The destination, to which something is on its way, has acknowledged nothing for long. Until it does again it gets nothing more,
  // and what is on its way there does not count, so that nobody waits for it.
  void on_silence(Destination destination);

  // Orders and which flow comes first, for the units that become ready from now on; the window is set_window()'s.
  void set_rules(const EgressRules& rules);

  // Requires: as in the constructor, and a chunk that is not smaller than what an empty one counts as. Chunks on their way are not
  // recalled.
  void set_window(Bytes window, Bytes chunk);
  void set_wide(Bytes wide) { options_.wide = wide; }

  Bytes window() const { return options_.window; }
  Bytes chunk() const { return options_.chunk; }
  Bytes in_flight() const { return {in_flight_}; }  // but for silent destinations
  Bytes in_flight(Destination destination) const;
  // Bytes that all destinations together may hold at the moment.
  Bytes limit() const;
  // Bytes that one destination may hold at the moment.
  Bytes share() const;
  std::size_t waiting() const { return units_.count(); }  // units with chunks left
  std::size_t waiting(Destination destination) const;
  // Chunks that left before a less urgent unit which was the first to be ready of all that had room: what the priority of layers
  // changed. The control plane's do not count.
  std::uint64_t overtakes() const { return overtakes(Flow::kPush) + overtakes(Flow::kReply); }
  std::uint64_t overtakes(Flow flow) const { return overtakes_[index(flow)]; }
  // Chunks of which only the turn said that their flow was next.
  std::uint64_t turns() const { return turns_; }

 private:
  struct Lane {
    WaitingUnits::Lines lines;
    std::int64_t in_flight = 0;
    bool exists = false;
    bool paused = true;
    bool silent = false;  // on_silence()
    bool active = false;

    bool may_leave() const { return !paused && !silent && lines.waiting > 0; }
  };

  // What orders the first units of several destinations.
  struct Urgency {
    std::int32_t layer = 0;
    std::int64_t on_way = 0;
    std::uint64_t turn = 0;
    std::uint64_t sequence = 0;
    bool operator==(const Urgency&) const = default;
    bool operator<(const Urgency& other) const {
      return std::tie(layer, on_way, turn, sequence) < std::tie(other.layer, other.on_way, other.turn, other.sequence);
    }
  };
  // What a decision needs to know of the lanes.
  struct Survey {
    std::array<Lane*, kFlows> heads{};  // with the most urgent unit of a flow that has room; null: none has
    const Lane* oldest = nullptr;       // with the unit that was ready first of all that have room
    std::int64_t counted = 0;           // of the window
  };
  // Many lanes, each kept in its order.
  struct Orders {
    std::array<Tournament<Urgency>, kFlows> heads;
    Tournament<std::uint64_t> oldest;  // by sequence
    Tournament<std::int64_t> loads;    // bytes on their way, negative: the largest first
  };

  static std::size_t index(Flow flow) { return static_cast<std::size_t>(flow); }
  std::int64_t cost(std::int64_t size) const;
  std::int64_t next_size(std::int64_t rest) const;
  static Urgency urgency_of(const Lane& lane, std::size_t flow);
  bool has_room(const Lane& lane, std::size_t flow, std::int64_t room) const;
  Lane& lane(Destination destination);
  bool are_few() const;
  void make_room_for_lanes();
  void refresh(Lane& lane);
  void keep_order(const Lane& lane);
  Survey survey(std::int64_t room);
  Survey look_at_all(std::int64_t room);
  Survey ask_orders(std::int64_t room);
  std::optional<Flow> first_of(const Survey& survey) const;

  EgressOptions options_;
  std::array<Order, kFlows> orders_;
  std::int64_t least_cost_;  // what a chunk counts for in the window at least, so that empty messages are bounded too
  std::vector<Lane> lanes_;
  std::size_t existing_ = 0;  // lanes
  Orders orders_of_lanes_;    // of more than a few
  WaitingUnits units_;
  std::int64_t in_flight_ = 0;
  std::int64_t active_ = 0;
  Flow turn_ = Flow::kPush;  // whose turn it is
  bool pushes_first_ = false;
  std::array<std::uint64_t, kFlows> overtakes_{};
  std::uint64_t turns_ = 0;
};

}  // namespace paceline::scheduling
