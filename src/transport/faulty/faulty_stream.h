// One connection through which faults are injected: stands between the user's handler and the inner connection.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transport/faulty/fault_plan.h"

namespace paceline::transport {

class FaultyStream final : public ConnectionHandler, public std::enable_shared_from_this<FaultyStream> {
 public:
  FaultyStream(std::shared_ptr<FaultPlan> plan, Loop& loop, std::unique_ptr<Connection> inner);

  // What Connection says.
  void start(ConnectionHandler& handler);
  void send(const wire::SealedHead& head, std::span<const std::byte> payload, std::uint64_t ticket);
  void admit();
  void close();
  void abandon();
  const Ends& ends() const { return ends_; }

  std::span<std::byte> on_head(const wire::FrameHeader& header, std::span<const std::byte> body) override;
  void on_frame(const Frame& frame) override;
  void on_sent(std::uint64_t ticket) override;
  void on_closed(const Status& reason) override;

 private:
  struct Held {  // not handed to the inner connection yet
    wire::SealedHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket;
    Fate fate;
  };
  struct Leaving {                     // handed over, not reported as sent yet
    std::vector<std::byte> corrupted;  // the copy with the flipped bit
    bool whole = true;
  };

  bool may_leave(Held& held);  // false: its wait has begun or goes on
  void pump();
  void pass(Held& held);  // changes it as its fate says
  void wake_others();
  void end_wait();
  void cut();
  bool usable() const { return inner_ != nullptr && plan_->alive; }

  std::shared_ptr<FaultPlan> plan_;
  Loop& loop_;
  std::unique_ptr<Connection> inner_;  // null once abandoned or closed
  Ends ends_;
  ConnectionHandler* handler_ = nullptr;

  std::deque<Held> held_;
  std::deque<Leaving> leaving_;
  std::optional<Loop::TimerId> timer_;  // of the wait of held_.front()
  bool waits_for_others_ = false;
  bool stuck_ = false;   // what it sends is lost
  bool doomed_ = false;  // it is cut once all of leaving_ is out
  bool cut_ = false;
  bool closed_ = false;  // by the user
};

}  // namespace paceline::transport
