// The optimizer's state, which servers hold, as a worker has to do with it: rank 0 may give one with its initial values, and each
// worker may ask for what it has become. Both times it stands in TensorMemory::state().
//
// Threads: as each function says. Without a state in memory there is none to give, and asking for it is refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exchange/gatehouse.h"
#include "exchange/tensor_memory.h"
#include "session/channels.h"
#include "wire/messages.h"

namespace paceline::paramserver {

class ServersState {
 public:
  // Both outlive it.
  ServersState(exchange::Gatehouse& house, session::Sender& sender, exchange::TensorMemory memory);

  // Any thread, not locked. As Carrier::gather_state().
  Result<bool> gather(Duration limit);

  // --- loop ---

  // What rank 0 sends of the unit at the beginning: its parameters, and the optimizer's state if there is any. There until
  // on_initial_delivered().
  std::span<const std::byte> initial(std::uint32_t unit);
  void on_initial_delivered(std::uint32_t unit) { initial_.erase(unit); }
  // Where a unit's state is received. kBadRequest: it was not asked for, or has another size.
  Result<std::span<std::byte>> place(Rank server, const wire::State& state, std::uint64_t bytes);
  Status on_state(Rank server, const wire::State& state);

 private:
  void ask();
  bool awaits(Rank server, std::uint32_t unit) const;
  Result<bool> wait(exchange::Gatehouse::Lock& lock, Duration limit);
  std::string awaited() const;

  exchange::Gatehouse& house_;
  const job::Plan& plan_;
  session::Sender& sender_;
  exchange::TensorMemory memory_;
  std::unique_ptr<transport::Signal> signal_;
  std::map<std::uint32_t, std::vector<std::byte>> initial_;   // loop only, as the next
  std::map<std::uint32_t, std::vector<std::byte>> arriving_;  // by unit

  // Locked.
  Iteration asked_in_ = 0;     // which the worker was in when it asked; 0: what it asked for was taken
  std::vector<bool> missing_;  // by unit
  std::size_t units_missing_ = 0;
};

}  // namespace paceline::paramserver
