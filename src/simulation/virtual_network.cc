#include "simulation/virtual_network.h"

#include <algorithm>

namespace paceline::simulation {
namespace {

std::int64_t wire_time(std::int64_t bytes, BytesPerSecond rate) { return nanoseconds(static_cast<double>(bytes) / rate.value); }

}  // namespace

VirtualNetwork::VirtualNetwork(const std::vector<Link>& links, const scheduling::EgressRules& rules, const Costs& costs,
                               Receiver& receiver)
    : costs_(costs), receiver_(receiver), cards_(costs.cards == 0 ? links.size() : costs.cards) {
  nodes_.reserve(links.size());
  for (const Link& link : links) {
    nodes_.emplace_back(link).queue.set_rules(rules);
  }
}

std::uint32_t VirtualNetwork::keep(const Transit& transit) {
  if (unused_transits_.empty()) {
    transits_.push_back(transit);
    return static_cast<std::uint32_t>(transits_.size() - 1);
  }
  const std::uint32_t slot = unused_transits_.back();
  unused_transits_.pop_back();
  transits_[slot] = transit;
  return slot;
}

// A lane that nothing waits in and that nothing left by is as good as a new one, to whomever it led.
std::uint32_t VirtualNetwork::lane_to(Node& node, std::uint32_t peer) {
  const auto [found, is_new] = node.lanes.try_emplace(peer);
  if (!is_new) return found->second;
  if (node.unused.empty()) {
    const std::uint32_t lane = node.queue.add();
    node.queue.resume(lane);
    node.peers.resize(lane + 1);
    node.unused.push_back(lane);
  }
  found->second = node.unused.back();
  node.unused.pop_back();
  node.peers[found->second] = peer;
  return found->second;
}

void VirtualNetwork::send(const Parcel& parcel, std::uint32_t from, std::uint32_t to, const wire::MessageHead& head) {
  const std::uint32_t lane = from == to ? 0 : lane_to(nodes_[from], to);
  const std::uint32_t slot = keep({parcel, from, to, lane});
  if (from == to) return at(now_, Event::What::kArrived, slot, parcel.bytes);
  if (parcel.bytes > 0) ++sent_;
  const auto flow = channel_of(head.kind) == wire::Channel::kValues ? scheduling::Flow::kReply : scheduling::Flow::kPush;
  nodes_[from].queue.on_ready({lane, head.layer, Bytes{parcel.bytes}, slot, flow, head.iteration});
  pump(from);
}

void VirtualNetwork::pump(std::uint32_t node) {
  Node& from = nodes_[node];
  if (from.sending) return;
  const auto chunk = from.queue.take();
  if (!chunk) return;
  from.sending = true;
  std::int64_t begin = now_;
  if (chunk->offset.count == 0) {
    begin = std::max(begin, from.processor_free) + nanoseconds(costs_.start_up);
    from.processor_free = begin + nanoseconds(costs_.processing);
  }
  if (costs_.cards == 0) return leave(node, *chunk, begin);
  from.ready = *chunk;  // others use the card until then
  at(begin, Event::What::kReady, node);
}

// A chunk begins to arrive when it begins to leave, or behind the one before it, and ends neither before it has left nor faster
// than the receiver's link.
void VirtualNetwork::leave(std::uint32_t node, const scheduling::EgressQueue::Chunk& chunk, std::int64_t begin) {
  const std::uint32_t peer = nodes_[node].peers[chunk.destination];
  const BytesPerSecond from = nodes_[node].rate, to = nodes_[peer].rate;
  Card &out = card_of(node), &in = card_of(peer);
  std::int64_t sent = begin, arrived = begin;
  if (&out != &in) {
    begin = std::max(begin, out.egress_free);
    const std::int64_t leaves = wire_time(chunk.size.count, from);
    const std::int64_t arrives = to == from ? leaves : wire_time(chunk.size.count, to);
    sent = out.egress_free = begin + leaves;
    in.ingress_free = std::max(begin, in.ingress_free) + arrives;
    arrived = std::max(sent, in.ingress_free);
  }
  at(sent, Event::What::kSent, node);
  at(arrived, Event::What::kArrived, static_cast<std::uint32_t>(chunk.tag), chunk.size.count);
}

void VirtualNetwork::on_arrived(std::uint32_t slot, std::int64_t bytes) {
  Transit& transit = transits_[slot];
  const std::uint32_t from = transit.from;
  const bool over_link = from != transit.to;
  if (over_link) {
    Node& sender = nodes_[from];
    sender.queue.on_acknowledged(transit.lane, Bytes{bytes});
    if (sender.queue.waiting(transit.lane) == 0 && sender.queue.in_flight(transit.lane) == Bytes{}) {
      sender.lanes.erase(transit.to);
      sender.unused.push_back(transit.lane);
    }
  }
  if (transit.received == 0) receiver_.on_begin(transit.parcel);
  transit.received += bytes;
  if (transit.received == transit.parcel.bytes) {
    const Parcel parcel = transit.parcel;  // its place may be the next one's at once
    unused_transits_.push_back(slot);
    receiver_.on_parcel(parcel);
  }
  if (over_link) pump(from);
}

bool VirtualNetwork::step() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.time;
  switch (event.what) {
    case Event::What::kReady:
      leave(event.subject, nodes_[event.subject].ready, now_);
      break;
    case Event::What::kSent:
      nodes_[event.subject].sending = false;
      pump(event.subject);
      break;
    case Event::What::kArrived:
      on_arrived(event.subject, event.bytes);
      break;
    case Event::What::kWake:
      receiver_.on_woken(event.subject);
      break;
  }
  return true;
}

}  // namespace paceline::simulation
