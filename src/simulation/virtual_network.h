// Links in virtual time: what a node sends waits in its EgressQueue, keeps links busy chunk by chunk as predict.h says, and
// arrives. The clock is here too: whoever else takes time, computing or updating, is woken, so that all events have one order.
// It knows no role. A node takes memory for the peers that something is on its way to, not for all there are.
#pragma once

#include <cmath>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/quantity.h"
#include "scheduling/egress_queue.h"
#include "wire/messages.h"

namespace paceline::simulation {

inline std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// A message without its payload.
struct Parcel {
  Rank from, to;  // within the roles at the ends of the message's channel
  wire::Message message;
  std::int64_t bytes = 0;
};

class VirtualNetwork {
 public:
  struct Link {
    BytesPerSecond rate;  // each way
    scheduling::EgressOptions egress;
  };
  struct Costs {
    double start_up = 0, processing = 0;  // seconds for each message, as in Cluster
    std::size_t cards = 0;                // as in Cluster; 0: each node has its own
  };
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void on_begin(const Parcel& parcel) = 0;   // its first bytes are there
    virtual void on_parcel(const Parcel& parcel) = 0;  // it is there
    virtual void on_woken(std::uint32_t sleeper) = 0;
  };

  // `links`: by node; those behind one card have one rate. The receiver outlives the network.
  VirtualNetwork(const std::vector<Link>& links, const scheduling::EgressRules& rules, const Costs& costs, Receiver& receiver);

  // `head` is the message's, with the layer that the egress queue orders it by. What stays on a node arrives at this moment.
  void send(const Parcel& parcel, std::uint32_t from, std::uint32_t to, const wire::MessageHead& head);
  // on_woken(sleeper) after so many seconds.
  void wake(std::uint32_t sleeper, double seconds) { at(now_ + nanoseconds(seconds), Event::What::kWake, sleeper); }
  // The next event; false: there is none.
  bool step();

  std::int64_t now() const { return now_; }    // nanoseconds since the beginning
  std::int64_t sent() const { return sent_; }  // messages with payload that took a link

 private:
  struct Event {
    enum class What : std::uint8_t { kReady, kSent, kArrived, kWake };
    std::int64_t time = 0;
    std::uint64_t sequence = 0;
    What what = What::kSent;
    std::uint32_t subject = 0;  // node, transit or sleeper
    std::int64_t bytes = 0;     // kArrived
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : sequence > other.sequence; }
  };
  struct Transit {
    Parcel parcel;
    std::uint32_t from = 0, to = 0;  // nodes
    std::uint32_t lane = 0;          // of the sender's queue
    std::int64_t received = 0;
  };
  struct Node {
    explicit Node(const Link& link) : rate(link.rate), queue(link.egress) {}
    BytesPerSecond rate;
    scheduling::EgressQueue queue;
    std::unordered_map<std::uint32_t, std::uint32_t> lanes;  // by peer to which something waits or is on its way
    std::vector<std::uint32_t> peers;                        // by lane: the last one that it led to
    std::vector<std::uint32_t> unused;                       // lanes
    bool sending = false;
    scheduling::EgressQueue::Chunk ready;  // while its message's start-up lasts, behind a shared card
    std::int64_t processor_free = 0;
  };
  // What the nodes behind it share: their chunks leave and arrive one after another.
  struct Card {
    std::int64_t egress_free = 0, ingress_free = 0;
  };

  void at(std::int64_t time, Event::What what, std::uint32_t subject, std::int64_t bytes = 0) {
    events_.push({time, next_sequence_++, what, subject, bytes});
  }
  std::uint32_t keep(const Transit& transit);
  static std::uint32_t lane_to(Node& node, std::uint32_t peer);
  Card& card_of(std::uint32_t node) { return cards_[node % cards_.size()]; }
  void pump(std::uint32_t node);
  void leave(std::uint32_t node, const scheduling::EgressQueue::Chunk& chunk, std::int64_t begin);
  void on_arrived(std::uint32_t transit, std::int64_t bytes);

  Costs costs_;
  Receiver& receiver_;
  std::vector<Node> nodes_;
  std::vector<Card> cards_;
  std::vector<Transit> transits_;
  std::vector<std::uint32_t> unused_transits_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_sequence_ = 0;
  std::int64_t now_ = 0, sent_ = 0;
};

}  // namespace paceline::simulation
