// Runs one rank's program of one operation: messages that have arrived go in, messages to send come out, reductions happen in
// between. Pure: no clock, thread or network, so tests step it by hand. One owner.
//
// An action runs as soon as no earlier one that is not done uses the same elements; up to kLookAhead actions are looked at. A
// message whose place is still in use, or that is only to be added to something, is received into a block of the pool and copied or
// added from there.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/exec/block_pool.h"
#include "collectives/exec/eager_credit.h"
#include "collectives/exec/program.h"
#include "tensor/reduce.h"

namespace paceline::collectives {

class Runner {
 public:
  static constexpr std::size_t kLookAhead = 32;

  struct Send {
    std::uint32_t action = 0;
    int peer = 0;
    std::uint32_t index = 0;
    std::span<const std::byte> payload;  // valid until on_delivered(action)
  };

  // `buffer`: program.elements of `dtype`, in place. `input`: of an exchange, what it gives. Pool, buffer and input outlive the
  // runner.
  Runner(std::shared_ptr<const Program> program, std::byte* buffer, tensor::DType dtype, tensor::Reduction reduction,
         BlockPool& pool, const std::byte* input = nullptr);

  // Does what can be done and appends the messages that may leave.
  void advance(std::vector<Send>& sends);

  // Before advance(): nothing is sent to the peer before it has begun the operation too. Otherwise kEagerBytes are.
  void hold(int peer) { peers_[static_cast<std::size_t>(peer)].eager = 0; }
  // The peer has begun the operation too.
  void on_ready(int peer) { peers_[static_cast<std::size_t>(peer)].ready = true; }
  // What is wrong with a message that the program does not have, or of another size, as the end of "rank 1 sends ..."; nothing when
  // it fits. Its sender cuts the operation differently.
  std::optional<std::string> misfit(int peer, std::uint32_t index, std::uint64_t bytes) const;
  // A message begins: its place, of `bytes` bytes. Errors: kCorrupt, the program expects no such message now.
  Result<std::span<std::byte>> on_begin(int peer, std::uint32_t index, std::uint64_t bytes);
  // A message that had begun before this runner was there; `block` is its place, and stays the caller's after an error.
  Status on_begun(int peer, std::uint32_t index, BlockPool::Block& block);
  // The message is there. Requires its beginning, unless it has no bytes.
  Status on_arrived(int peer, std::uint32_t index);
  void on_delivered(std::uint32_t action);
  // Nothing comes from or goes to the peer any more, and what it borrowed is free.
  void on_lost(int peer);

  bool done() const { return pending_.empty() && next_ == program_->actions.size(); }
  // Memory that messages on their way still read or write.
  bool borrowed() const { return borrowed_ > 0; }
  // Whether anything to or from the peer is not done yet.
  bool needs(int peer) const;
  // The peer that the oldest unfinished action waits for; -1: none.
  int waits_for() const;
  const Program& program() const { return *program_; }

 private:
  enum class State : std::uint8_t { kWaiting, kReceiving, kArrived, kSending, kLost, kDone };
  struct Slot {
    State state = State::kWaiting;
    BlockPool::Block block;  // received here, or sent from here, unless that happens where the elements belong
  };
  struct Peer {
    std::int64_t sent = 0;             // bytes
    std::int64_t eager = kEagerBytes;  // of them, before it is ready
    bool ready = false;
  };

  Result<std::uint32_t> find_waiting(int peer, std::uint32_t index, std::uint64_t bytes) const;
  bool is_free(std::size_t place_in_pending) const;
  bool is_free_action(std::uint32_t action) const;
  bool is_due(std::uint32_t action) const;                   // the message is there, or may leave
  void run(std::uint32_t action, std::vector<Send>& sends);  // requires that it is due and free
  bool may_send(const Action& action) const;
  void reduce(const Place& to, const std::byte* from);
  std::span<std::byte> bytes_of(Memory memory, const Range& range) const;
  void read(const Place& from, std::byte* to) const;
  void write(const Place& to, const std::byte* from);

  std::shared_ptr<const Program> program_;
  std::byte* buffer_;
  const std::byte* input_;
  tensor::DType dtype_;
  tensor::Reduction reduction_;
  std::int64_t size_;  // bytes of an element
  BlockPool& pool_;
  BlockPool::Block scratch_;
  std::vector<Slot> slots_;             // by action
  std::vector<std::uint32_t> pending_;  // actions that are not done, ascending; those after them are not looked at yet
  std::size_t next_ = 0;                // the first of those
  std::vector<Peer> peers_;
  std::int64_t borrowed_ = 0;
};

}  // namespace paceline::collectives
