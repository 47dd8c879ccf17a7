// Ranks as threads with an engine each, every one connected to every other, for tests of collective operations.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/exec/communicator.h"
#include "conformance/harness.h"
#include "session/endpoint.h"

namespace paceline::collectives::testing {

using transport::testing::Backend;

// One rank: binds an engine to an endpoint, as the runtime does.
class CollectiveRank final : public session::EndpointHandler {
 public:
  CollectiveRank(const Backend& backend, int rank, int ranks, session::EndpointOptions options);
  ~CollectiveRank() override;

  transport::Address listen(const std::string& host);
  void connect(const transport::Address& to, int rank);
  void wait_connected();
  std::unique_ptr<Communicator> communicator(const CommunicatorOptions& options = {});
  void leave();  // says goodbye
  void kill();   // as if the process had died
  transport::testing::Rank& loop() { return loop_; }
  Engine& engine() { return *engine_; }
  Communicator::Post post();
  session::EndpointCounters counters();
  std::size_t unfinished();

 private:
  Status on_hello(const wire::PeerName&) override { return {}; }
  void on_peer(session::PeerId peer, const wire::PeerName& name) override;
  Result<std::span<std::byte>> on_message_begin(session::PeerId, const wire::MessageHead&) override {
    return error(ErrorKind::kBadRequest, "a message that is none of a collective");
  }
  void on_message(session::PeerId, const wire::MessageHead&, std::span<std::byte>) override {}
  void on_delivered(session::PeerId, wire::Channel, std::uint64_t) override {}
  void on_peer_lost(session::PeerId, const wire::PeerName&, const Status&) override {}

  int rank_, ranks_;
  transport::testing::Rank loop_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<session::Endpoint> endpoint_;
  int connected_ = 0;
  std::promise<void> all_there_;
};

class CollectiveWorld {
 public:
  CollectiveWorld(const Backend& backend, int ranks, const session::EndpointOptions& options = {});

  int size() const { return static_cast<int>(ranks_.size()); }
  CollectiveRank& rank(int index) { return *ranks_[static_cast<std::size_t>(index)]; }
  // Runs `work` for every rank on a thread of its own, with a communicator of all.
  void run(const CommunicatorOptions& options, const std::function<void(Communicator&)>& work);
  // Everybody says goodbye, one after the other.
  void leave();

 private:
  std::vector<std::unique_ptr<CollectiveRank>> ranks_;
};

}  // namespace paceline::collectives::testing
