// What stands in the memory of one server: the values of its units, the gradients that wait (ReceivedGradients), and sums that are
// held. Its Shard makes the updates; when one is made, and of whose gradients, a ServerLedger says. Pure; owned by one progress
// loop.
//
// An update begins with the sum of the gradients in rank order, times the scale, for every part of the unit by itself. A part that
// no worker of the update used is not updated.
//
// Memory. Values are sent from where they stand; an update that finds its value still being sent works on a copy, and the old one
// is given back when it is released. Nothing is allocated once the pool is warm, but for the text of errors. Where values are not
// sent as they stand (job::Plan::value_codec), of each new one a single encoded copy is made and sent to everybody; the value
// itself, which checkpoints hold, is never sent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "exchange/buffer_pool.h"
#include "exchange/shard.h"
#include "exchange/verdict.h"
#include "job/plan.h"
#include "paramserver/core/received_gradients.h"
#include "paramserver/core/server_effect.h"

namespace paceline::paramserver {

class ServerMemory {
 public:
  // The units that live on `server`.
  ServerMemory(std::shared_ptr<const job::Plan> plan, Rank server);
  ServerMemory(const ServerMemory&) = delete;
  ServerMemory& operator=(const ServerMemory&) = delete;

  // The value of a unit, to be received or restored; before its first update.
  std::span<float> initial(std::uint32_t unit) { return pool_.of(at(unit).value, plan_->elements(unit)); }
  // Where the value is received with optimizer state behind it (exchange/optimizer_state.h); and both are there. kBadRequest as
  // read_state(). Also OK if nothing arrived.
  std::span<float> initial_with_state(std::uint32_t unit);
  Status take_initial_state(std::uint32_t unit);

  // Where a gradient of `bytes` bytes is received, in whole floats. Valid until it has been summed or is forgotten.
  std::span<float> place(std::uint32_t unit, Rank worker, std::size_t bytes) { return gradients_.place(unit, worker, bytes); }
  // Why the gradient that came is none: its sparse elements are not in order. Success also when there is none.
  Status check(std::uint32_t unit, Rank worker, Iteration iteration) const { return gradients_.check(unit, worker, iteration); }
  // It counts, but for the parts that the worker did not use.
  void on_arrived(std::uint32_t unit, Rank worker, std::uint32_t unused_parts) {
    gradients_.on_arrived(unit, worker, unused_parts);
  }
  // What is being received for it will not be complete.
  void forget(std::uint32_t unit, Rank worker) { gradients_.forget(unit, worker); }

  using Told = std::span<const exchange::GroupRates>;  // as in Shard::Rates
  // Update::Work::kSumAndStep. kCorrupt, naming the worker, when a gradient is not finite and the job is to stop then.
  Status update(const Update& update, Told told = {});
  // Update::Work::kSum: what step() will use. The same error.
  Status sum(const Update& update);
  // Update::Work::kStep, after Shard::decide().
  void step(const Update& update, Told told = {});

  // The arithmetic, and optimizer state.
  exchange::Shard& shard() { return shard_; }

  // Values as they travel. The payload stays as it is until release(ticket), once.
  struct Sent {
    std::span<const std::byte> payload;
    std::uint32_t ticket = 0;
  };
  enum class Which { kNow, kKept };
  // With that label; several: one behind the other.
  Sent send(std::span<const std::uint32_t> units, Which which, Iteration label);
  void release(std::uint32_t ticket);
  // job::UpdateOptions::verdict: what is known of `iteration`, of which every unit has been updated, and of no later one. As above.
  Sent send_verdict(Iteration iteration);
  // The unit's optimizer state as it is now.
  Sent send_state(std::uint32_t unit);
  // Keeps the value as it is now beside the current one, until forget_kept().
  void keep(std::uint32_t unit);
  void forget_kept(std::uint32_t unit);

  // For checkpoints. `state` is as in tensor/optimizer.h: planes of elements() floats each.
  struct PartState {
    std::span<const float> value;
    std::span<const float> state;
    std::int64_t steps = 0;  // updates made
  };
  PartState save(std::uint32_t part) const;
  // Before the first update. kBadRequest when sizes do not fit or steps are negative.
  Status load(std::uint32_t part, const PartState& from);

  struct Counters {
    std::int64_t gradient_bytes = 0,
                 gradient_bytes_high = 0;  // received gradients and held sums: now, and the most there ever were
    std::int64_t value_copies = 0;         // updates that found their value still being sent
    std::int64_t updates = 0, skipped_units = 0;
  };
  Counters counters() const;

 private:
  static constexpr std::uint32_t kNoBuffer = exchange::BufferPool::kNone;

  struct Unit {
    std::uint32_t value = kNoBuffer;
    std::uint32_t encoded = kNoBuffer;  // the value as it is sent, where that is not the value; none before somebody wants it
    std::uint32_t kept = kNoBuffer;
    std::uint32_t sum = kNoBuffer;       // of kSum, until the step; none when no worker used the unit
    std::uint32_t used_parts = 0;        // bits: whose sum is there
    std::uint32_t arriving = kNoBuffer;  // initial_with_state()
  };
  Status look(std::uint32_t part, const Update& update, std::span<const float> mean);
  Status broken(std::uint32_t part, const Update& update) const;
  void judge(std::uint32_t part, const Update& update, std::span<const float> mean);
  Result<bool> update_part(std::uint32_t part, const Update& update, Told told);
  Status sum_part(std::uint32_t part, const Update& update);
  void give_back_gradients(const Update& update);
  std::uint32_t sent_buffer(std::uint32_t unit, Iteration label);
  std::span<float> writable_value(std::uint32_t unit);
  std::span<const std::byte> bytes_of(std::uint32_t buffer, std::size_t bytes) const;

  Unit& at(std::uint32_t unit) { return units_[plan_->units().place_in_server[unit]]; }
  const Unit& at(std::uint32_t unit) const { return units_[plan_->units().place_in_server[unit]]; }

  std::shared_ptr<const job::Plan> plan_;
  exchange::Shard shard_;
  exchange::BufferPool pool_;
  ReceivedGradients gradients_;
  std::vector<Unit> units_;  // by place in this server
  std::vector<float> sum_;   // scratch, as long as the largest unit
  // job::UpdateOptions::verdict
  exchange::VerdictPart verdict_;          // of the iteration that is being summed
  Iteration told_ = -1;                    // the newest one that was sent
  std::uint32_t told_buffer_ = kNoBuffer;  // as it is sent
  Counters counters_;                      // but for gradients
};

}  // namespace paceline::paramserver
