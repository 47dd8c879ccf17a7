// Where a worker's time went between computing and communication, and how much of it was hidden: kept by listening. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "exchange/gate_ledger.h"
#include "wire/event.h"

namespace paceline::exchange {

// Where the training thread's time went at gates, and what was hidden; seconds since the last account. Exposed parts add up to the
// time that the gates took. At a gate, of the unit that came last: until its gradient was received = push; from then until its
// value began to come = wait, of which the time that its update took = update; from then on = pull.
struct Account {
  Duration push{}, pull{}, wait{}, update{};
  Duration overlapped_push{},
      overlapped_pull{};  // time with at least one push (pull) on its way, while training waited for nothing
  // Payload. With a codec that packs whoever sends the pushes counts them.
  std::int64_t bytes_pushed = 0, bytes_pulled = 0;

  Account& operator+=(const Account& other);
};

// When a unit passed the stations of its way in one iteration; nothing: not yet, or never.
struct UnitTimes {
  std::optional<TimePoint> delivered, updated, returning;
  TimePoint complete{};
  Duration updating{};  // how long its update took elsewhere; counts where `updated` says nothing

  // Adds the exposed parts of a wait for this unit, from `entered` to `opened`.
  void split(TimePoint entered, TimePoint opened, Account& account) const;
};

// Time during which at least one of something was under way, and nobody waited.
class BusyTime {
 public:
  void begin(TimePoint now);
  void end(TimePoint now);
  // Somebody waited; ascending, and told when the wait is over.
  void exclude(TimePoint from, TimePoint to);
  // Since the last call.
  Duration take(TimePoint now);

 private:
  struct Interval {
    TimePoint from, to;
  };

  std::int64_t running_ = 0;
  TimePoint since_{};
  std::vector<Interval> ended_;  // which a wait may still be told of
  Duration total_{};
};

// The account of one worker. Hears of the stations of its units and of its gates; whoever tells it and asks it owns it.
class AccountBook final : public wire::EventSink {
 public:
  // `gates` is the worker's, and outlives it.
  explicit AccountBook(const GateLedger& gates);

  // O(1); of a wait as on_waited. Initial values do not count, nor do waits for them.
  void on_event(const wire::Event& event) override;
  // The training thread stood at the gate of `layer` (nothing: of all layers) of `iteration`: a wait of which no event tells.
  // O(units that it was for)
  void on_waited(std::optional<Layer> layer, Iteration iteration, TimePoint entered, TimePoint opened);
  // Payload that no event of a unit tells of.
  void count_bytes(std::int64_t pushed, std::int64_t pulled);

  // When the last value of those that the open gate of `layer` waited for was complete. O(units of the layer)
  TimePoint opened_at(Layer layer) const;
  // Everything since the last call.
  Account take(TimePoint now);

 private:
  bool counts(const wire::Event& event) const { return event.iteration >= gates_.plan().options().first; }

  const GateLedger& gates_;
  std::vector<UnitTimes> units_;
  BusyTime pushes_, pulls_;
  Account account_;
};

}  // namespace paceline::exchange
