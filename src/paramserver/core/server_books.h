// What a server knows of its workers, of its units, and of each worker and unit: a byte of bits. The books that the parts of a
// ServerLedger share; they decide nothing. Owned by one progress loop.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/status.h"
#include "job/plan.h"

namespace paceline::paramserver {

class ServerBooks {
 public:
  static constexpr Iteration kNone = -1;

  // What is between a worker and a unit.
  enum Flag : std::uint8_t {
    kPushed = 1,     // of the iteration that the worker is in
    kArriving = 2,   // that gradient begins to come
    kHas = 4,        // was sent the value that is due to it
    kAsked = 8,      // for the next value
    kKept = 16,      // its due value is the kept one
    kLeftPush = 32,  // has left, and a push of it waits to be summed
  };
  enum class Initial : std::uint8_t { kAwaited, kArriving, kThere };
  struct Unit {
    Iteration version = 0;      // iterations counted
    Iteration waits = kNone;    // for the other pushes of this iteration, to be summed
    std::int32_t waiting = 0;   // workers that take part and have pushed it
    std::int32_t kept_for = 0;  // workers whose due value is the kept one
    std::int64_t pushes = 0;    // applied
    Initial initial = Initial::kAwaited;
  };
  struct Worker {
    Iteration first = 1;
    Iteration current = 1;         // the iteration whose pushes come
    Iteration started = 1;         // the last one that the pace rule let it start
    std::size_t pushed = 0;        // units of the current one
    std::uint32_t handed_out = 0;  // mini-batches
    bool live = true, done = false;

    bool takes_part() const { return live && !done; }
  };

  // All workers of the plan take part from options().first.
  ServerBooks(std::shared_ptr<const job::Plan> plan, Rank server);

  const job::Plan& plan() const { return *plan_; }
  const std::shared_ptr<const job::Plan>& shared_plan() const { return plan_; }
  Rank server() const { return server_; }
  std::span<const Worker> all_workers() const { return workers_; }
  std::int32_t workers() const { return static_cast<std::int32_t>(workers_.size()); }
  std::size_t units_here() const { return units_.size(); }
  std::span<const std::uint32_t> units() const { return plan_->units().moving_of(server_); }  // those that have gradients

  Unit& at(std::uint32_t unit) { return units_[plan_->units().place_in_server[unit]]; }
  const Unit& at(std::uint32_t unit) const { return units_[plan_->units().place_in_server[unit]]; }
  Worker& at(Rank worker) { return workers_[static_cast<std::size_t>(worker.value)]; }
  const Worker& at(Rank worker) const { return workers_[static_cast<std::size_t>(worker.value)]; }
  bool exists(Rank worker) const { return worker.value >= 0 && worker.value < workers(); }

  std::uint8_t& flags(std::uint32_t unit, Rank worker) { return flags_[index(unit, worker)]; }
  bool has(std::uint32_t unit, Rank worker, Flag flag) const { return (flags_[index(unit, worker)] & flag) != 0; }
  void set(std::uint32_t unit, Rank worker, Flag flag) { flags(unit, worker) |= flag; }
  void clear(std::uint32_t unit, Rank worker, Flag flag) { flags(unit, worker) &= static_cast<std::uint8_t>(~flag); }
  // The latest iteration that the worker has pushed.
  Iteration pushed(std::uint32_t unit, Rank worker) const { return at(worker).current - (has(unit, worker, kPushed) ? 0 : 1); }

  // Whether such a worker and unit are here; an error says what is wrong.
  Status check(Rank worker, std::uint32_t unit) const;
  std::string unit_text(std::uint32_t unit) const;

 private:
  std::size_t index(std::uint32_t unit, Rank worker) const {
    return plan_->units().place_in_server[unit] * workers_.size() + static_cast<std::size_t>(worker.value);
  }

  std::shared_ptr<const job::Plan> plan_;
  Rank server_;
  std::vector<Unit> units_;          // by place in this server
  std::vector<std::uint8_t> flags_;  // by place in this server, then worker
  std::vector<Worker> workers_;
};

}  // namespace paceline::paramserver
