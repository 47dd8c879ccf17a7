// A rank with an endpoint, for tests: records what happens, checks what arrives, and waits with patience instead of sleeping.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "conformance/harness.h"
#include "session/endpoint.h"

namespace paceline::session::testing {

using transport::testing::Backend;
using transport::testing::give_up;
using transport::testing::kPatience;
using transport::testing::LeakCheck;
using transport::testing::Rank;

// The payload of message `index` from one rank to another, told from every other and checked byte by byte.
void fill(std::span<std::byte> payload, std::uint64_t from, std::uint64_t to, std::uint64_t index);
bool is_filled(std::span<const std::byte> payload, std::uint64_t from, std::uint64_t to, std::uint64_t index);

class Node : public EndpointHandler {
 public:
  Node(const Backend& backend, EndpointOptions options);
  ~Node() override;

  transport::Address listen(const std::string& host);
  PeerId connect(const transport::Address& to, const wire::PeerName& expected, Duration deadline = std::chrono::minutes(2));
  void send_owned(PeerId to, wire::MessageHead head, std::vector<std::byte> payload);
  void close(Duration limit);  // waits for `done`
  void kill();                 // as if the process had died: no goodbye
  void freeze() { rank.stop(); }
  EndpointCounters counters();

  // Waits until the condition, evaluated on the loop, holds: after each event, and from time to time for what has none (counters).
  void wait_until(const std::string& what, const std::function<bool(Node&)>& condition);
  PeerId wait_peer(const wire::PeerName& name);
  Status wait_lost(PeerId peer);

  struct Arrival {
    PeerId peer;
    wire::MessageHead head;
    std::vector<std::byte> payload;
  };
  struct Lost {
    wire::PeerName name;
    Status reason;
  };
  // Loop thread, or with the loop stopped. Hooks are set before anything happens.
  Rank rank;
  EndpointOptions options;
  std::unique_ptr<Endpoint> endpoint;
  std::vector<std::pair<PeerId, wire::PeerName>> peers;
  std::map<PeerId, Lost> lost;
  std::vector<Arrival> arrived;
  std::set<std::uint64_t> delivered;
  std::vector<wire::Channel> channels;  // of what was delivered, in that order
  std::function<Status(const wire::PeerName&)> hello_hook;
  std::function<std::string(const wire::MessageHead&)> about_hook;
  std::function<Result<std::span<std::byte>>(PeerId, const wire::MessageHead&)> begin_hook;
  std::function<void(PeerId, const wire::MessageHead&, std::span<std::byte>)> message_hook;  // instead of `arrived`
  std::function<void(PeerId, std::uint64_t)> delivered_hook;                                 // instead of `delivered`
  std::function<void(PeerId, const Status&)> lost_hook;                                      // besides `lost`

 private:
  Status on_hello(const wire::PeerName& name) override;
  void on_peer(PeerId peer, const wire::PeerName& name) override;
  Result<std::span<std::byte>> on_message_begin(PeerId peer, const wire::MessageHead& head) override;
  void on_message(PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(PeerId peer, wire::Channel channel, std::uint64_t ticket) override;
  void on_peer_lost(PeerId peer, const wire::PeerName& name, const Status& reason) override;
  std::string about(const wire::MessageHead& head) const override { return about_hook ? about_hook(head) : ""; }
  void look();
  void look_again();

  std::multimap<PeerId, std::vector<std::byte>> places_;
  std::function<bool(Node&)> condition_;
  std::promise<void> holds_;
  bool looks_again_ = false;
};

}  // namespace paceline::session::testing
