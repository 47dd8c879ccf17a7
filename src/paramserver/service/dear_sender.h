// Values leave as where messages are dear: each after a start-up, one after another to each worker. The next one's start-up begins
// when the last one has arrived, as in the model by which iBatch plans ("Problem Formulation", Eq 1: T_s). For replays, whose
// network has no such start-up. Other messages go as they are.
//
// Threads: belongs to the loop.
#pragma once

#include <deque>
#include <map>

#include "session/channels.h"
#include "transport/transport.h"

namespace paceline::paramserver {

class DearSender final : public session::Sender {
 public:
  // `loop` and `sender` outlive it.
  DearSender(transport::Loop& loop, session::Sender& sender, Duration start_up)
      : loop_(loop), sender_(sender), start_up_(start_up) {}
  ~DearSender() override;
  DearSender(const DearSender&) = delete;
  DearSender& operator=(const DearSender&) = delete;

  void send(Rank to, const wire::MessageHead& head, std::span<const std::byte> payload, std::uint64_t ticket) override;
  std::optional<Duration> round_trip() const override { return sender_.round_trip(); }

  // Of any message.
  void on_delivered(Rank worker, std::uint64_t ticket);
  // What waits for it is dropped.
  void on_peer_lost(Rank worker);

 private:
  struct Held {
    wire::MessageHead head;
    std::span<const std::byte> payload;
    std::uint64_t ticket = 0;
  };
  struct Line {                // of one worker
    std::deque<Held> waiting;  // the first one's start-up is under way, or it is itself
    bool left = false;         // the first one has
    transport::Loop::TimerId timer = 0;
  };
  void begin(Rank worker, Line& line);

  transport::Loop& loop_;
  session::Sender& sender_;
  const Duration start_up_;
  std::map<Rank, Line> lines_;
};

}  // namespace paceline::paramserver
