// A process that takes part in collective operations without a job: finds the other ranks, holds a session with each of them, and
// runs the engine (collectives/exec/engine.h) on a loop that a thread of its own serves, or whoever waits for an operation.
//
// How ranks find each other. With a list, rank r listens at its own address and connects to the ranks before it. Without, all
// connect to rank 0 and tell it where they listen; it answers with the whole list when all are there. Processes whose lists or
// numbers of ranks differ refuse each other, and say why.
//
// Nobody else is heard: whoever does not know the list, or what rank 0 has told those who met, cannot begin a session
// (session/endpoint.h), and once all ranks are there nobody can. At the meeting a process has a rank only when it has said all that
// joining needs (membership/joiners.h).
//
// Threads: connect() and the destructor may be called by any thread, one at a time; post() by any. The rest belongs to the loop.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/job_key.h"
#include "collectives/exec/engine.h"
#include "membership/joiners.h"
#include "runtime/loop_driver.h"
#include "session/endpoint.h"
#include "transport/transport.h"

namespace paceline::runtime {

struct CollectiveProcessOptions {
  Rank self;
  std::int32_t ranks = 1;
  std::vector<transport::Address> addresses;  // of all ranks, in their order; empty: they meet at rank 0
  transport::Address meeting;                 // where rank 0 listens then
  std::string bind;                           // where the others reach this process then, see transport::own_place
  Duration connect_deadline = std::chrono::seconds(30);
  Duration silence_deadline = std::chrono::seconds(10);
  std::string release;        // of the program; ranks of another one are refused at the meeting
  std::uint64_t seed = 1;     // differs between processes
  Duration spin{0};           // see transport::SocketOptions
  std::optional<JobKey> key;  // likewise
};

class CollectiveProcess final : public session::EndpointHandler {
 public:
  // Blocks until all ranks are connected with each other as far as this one can see. Errors: kBadRequest (ranks that do not belong
  // together), kIo (an address), kDeadline naming who is missing.
  static Result<std::unique_ptr<CollectiveProcess>> connect(CollectiveProcessOptions options);
  // Says goodbye when all that was sent has arrived, at most 10 s later.
  ~CollectiveProcess() override;

  collectives::Engine& engine() { return *engine_; }
  void post(std::function<void()> work) { transport_->loop().post(std::move(work)); }
  // Why this process leaves, for the others, instead of having finished. Any thread.
  void fail(const std::string& why);
  // For the communicators of this process.
  collectives::Driver& driver() { return *driver_; }
  Rank rank() const { return options_.self; }
  std::int32_t ranks() const { return options_.ranks; }

  // EndpointHandler
  Status on_hello(const wire::PeerName& name) override;
  void on_peer(session::PeerId peer, const wire::PeerName& name) override;
  Result<std::span<std::byte>> on_message_begin(session::PeerId peer, const wire::MessageHead& head) override;
  void on_message(session::PeerId peer, const wire::MessageHead& head, std::span<std::byte> payload) override;
  void on_delivered(session::PeerId, wire::Channel, std::uint64_t) override {}
  void on_peer_lost(session::PeerId peer, const wire::PeerName& name, const Status& reason) override;

 private:
  explicit CollectiveProcess(CollectiveProcessOptions options) : options_(std::move(options)) {}

  bool meets() const { return options_.addresses.empty(); }
  Status start();  // before the loop runs
  void connect_to(Rank rank, const transport::Address& address);
  void meet(session::PeerId peer, Rank rank);
  bool is_meeting() const;  // others join here
  std::int32_t missing_ranks() const { return options_.ranks - 1 - static_cast<std::int32_t>(names_.size()); }
  void introduce(session::PeerId meeting);
  void on_introduced(session::PeerId peer, std::span<const std::byte> payload);
  void refuse(session::PeerId peer, const Status& reason);
  void on_all_introduced();
  void on_list(std::span<const std::byte> payload);
  void refuse_all(const Status& reason);
  void check_complete();
  void settle(const Status& how);  // the first call decides how connect() ends
  std::string missing() const;

  CollectiveProcessOptions options_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<collectives::Engine> engine_;
  std::unique_ptr<session::Endpoint> endpoint_;
  std::string listening_;
  std::vector<session::PeerId> ids_;  // by rank; 0: not there
  std::map<session::PeerId, Rank> names_;
  membership::Joiners joiners_;             // on rank 0
  std::map<Rank, std::string> introduced_;  // on rank 0: who listens where
  bool listed_ = false;                     // the list of addresses is known
  bool settled_ = false;
  std::promise<Status> ready_;
  std::string farewell_ = "it has finished";
  std::unique_ptr<LoopDriver> driver_;
};

}  // namespace paceline::runtime
