#include "session_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline::session::testing {
namespace {

std::uint64_t word(std::uint64_t key, std::uint64_t at) {
  const std::uint64_t value = (key + at) * 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29);
}

std::uint64_t key_of(std::uint64_t from, std::uint64_t to, std::uint64_t index) {
  return (from << 56) ^ (to << 48) ^ (index << 20);
}

}  // namespace

void fill(std::span<std::byte> payload, std::uint64_t from, std::uint64_t to, std::uint64_t index) {
  const std::uint64_t key = key_of(from, to, index);
  for (std::size_t at = 0; at < payload.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t eight = word(key, at);
    std::memcpy(payload.data() + at, &eight, std::min(sizeof eight, payload.size() - at));
  }
}

bool is_filled(std::span<const std::byte> payload, std::uint64_t from, std::uint64_t to, std::uint64_t index) {
  const std::uint64_t key = key_of(from, to, index);
  for (std::size_t at = 0; at < payload.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t eight = word(key, at);
    if (std::memcmp(payload.data() + at, &eight, std::min(sizeof eight, payload.size() - at)) != 0) return false;
  }
  return true;
}

Node::Node(const Backend& backend, EndpointOptions with) : rank(backend), options(with) {
  rank.on_loop([this] { endpoint = std::make_unique<Endpoint>(rank.transport(), options, *this); });
}

Node::~Node() {
  rank.stop();
  endpoint.reset();
}

transport::Address Node::listen(const std::string& host) {
  transport::Address where;
  rank.on_loop([&] {
    auto result = endpoint->listen({host, 0});
    PACELINE_CHECK(result.ok(), "{}", result.status().message());
    where = *result;
  });
  return where;
}

PeerId Node::connect(const transport::Address& to, const wire::PeerName& expected, Duration deadline) {
  PeerId peer = 0;
  rank.on_loop([&] { peer = endpoint->connect(to, expected, deadline); });
  return peer;
}

void Node::send_owned(PeerId to, wire::MessageHead head, std::vector<std::byte> payload) {
  rank.on_loop([&] {
    head.payload_bytes = payload.size();
    endpoint->send_owned(to, head, std::move(payload));
  });
}

void Node::close(Duration limit) {
  auto done = std::make_shared<std::promise<void>>();
  auto closed = done->get_future();
  rank.on_loop([&] { endpoint->close(limit, [done] { done->set_value(); }); });
  if (closed.wait_for(kPatience) != std::future_status::ready) give_up("close() of " + options.self.text());
}

void Node::kill() {
  rank.stop();
  endpoint.reset();
  rank.destroy_transport();
}

EndpointCounters Node::counters() {
  EndpointCounters counters;
  rank.on_loop([&] { counters = endpoint->counters(); });
  return counters;
}

void Node::wait_until(const std::string& what, const std::function<bool(Node&)>& condition) {
  std::future<void> holds;
  rank.on_loop([&] {
    holds_ = {};
    holds = holds_.get_future();
    condition_ = condition;
    look();
    if (!std::exchange(looks_again_, true)) look_again();
  });
  if (holds.wait_for(kPatience) != std::future_status::ready) give_up(options.self.text() + ": " + what);
}

void Node::look() {
  if (!condition_ || !condition_(*this)) return;
  condition_ = nullptr;
  holds_.set_value();
}

void Node::look_again() {
  if (!condition_) {
    looks_again_ = false;
    return;
  }
  rank.loop().run_after(std::chrono::milliseconds(5), [this] {
    look();
    look_again();
  });
}

PeerId Node::wait_peer(const wire::PeerName& name) {
  PeerId found = 0;
  wait_until("on_peer of " + name.text(), [&](Node& node) {
    for (const auto& [id, known] : node.peers) {
      if (known == name && !node.lost.contains(id)) found = id;
    }
    return found != 0;
  });
  return found;
}

Status Node::wait_lost(PeerId peer) {
  Status reason;
  wait_until("on_peer_lost", [&](Node& node) {
    if (!node.lost.contains(peer)) return false;
    reason = node.lost.at(peer).reason;
    return true;
  });
  return reason;
}

Status Node::on_hello(const wire::PeerName& name) { return hello_hook ? hello_hook(name) : Status(); }

void Node::on_peer(PeerId peer, const wire::PeerName& name) {
  peers.emplace_back(peer, name);
  look();
}

Result<std::span<std::byte>> Node::on_message_begin(PeerId peer, const wire::MessageHead& head) {
  if (begin_hook) return begin_hook(peer, head);
  return std::span(places_.emplace(peer, std::vector<std::byte>(head.payload_bytes))->second);
}

void Node::on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) {
  if (message_hook) {
    message_hook(peer, head, payload);
  } else {
    arrived.push_back({peer, head, {payload.begin(), payload.end()}});
    const auto place = std::find_if(places_.begin(), places_.end(),
                                    [&](const auto& entry) { return !payload.empty() && entry.second.data() == payload.data(); });
    if (place != places_.end()) places_.erase(place);  // whoever writes there again is found
  }
  look();
}

void Node::on_delivered(PeerId peer, wire::Channel channel, std::uint64_t ticket) {
  if (delivered_hook) {
    delivered_hook(peer, ticket);
  } else {
    channels.push_back(channel);
    EXPECT_TRUE(delivered.insert(ticket).second) << "ticket " << ticket << " delivered twice";
  }
  look();
}

void Node::on_peer_lost(PeerId peer, const wire::PeerName& name, const Status& reason) {
  EXPECT_TRUE(lost.emplace(peer, Lost{name, reason}).second) << name.text() << " lost twice";
  if (lost_hook) lost_hook(peer, reason);
  look();
}

}  // namespace paceline::session::testing
