#include "timeline/round_trips.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace paceline::timeline {
namespace {

using wire::Event;
using wire::Happening;
using wire::MessageKind;

// Positions in RoundTrip::at.
enum Mark : std::uint8_t { kReady, kLeft, kArrived, kTaken, kBegun, kUpdated, kReplied, kReplyLeft, kReturned };

// One moment of one round trip.
struct Fact {
  Iteration iteration = 0;
  std::uint32_t unit = 0;
  Rank worker;
  Mark mark = kReady;
  std::int64_t at = 0;
};

struct Interval {
  std::int64_t begin = 0, end = 0;
};

class Facts {
 public:
  explicit Facts(std::span<const UnitHome> units) : units_(units) {}

  void add(const ProcessRecord& process) {
    for (const wire::TimelinePart& part : process.parts) {
      for (const Event& event : part.events) add(process, event);
    }
  }

  std::vector<RoundTrip> put_together() {
    const auto of = [](const Fact& fact) { return std::tuple(fact.iteration, fact.unit, fact.worker.value); };
    std::ranges::stable_sort(facts_, {}, of);
    std::vector<RoundTrip> trips;
    for (auto first = facts_.begin(); first != facts_.end();) {
      const auto last = std::find_if(first, facts_.end(), [&](const Fact& fact) { return of(fact) != of(*first); });
      RoundTrip trip{.worker = first->worker, .unit = first->unit, .iteration = first->iteration, .at = {}};
      for (; first != last; ++first) {
        if (!trip.at[first->mark]) trip.at[first->mark] = first->at;
      }
      if (!trip.at[kBegun]) find_update(trip);
      if (trip.at[kReady]) trips.push_back(trip);
    }
    return trips;
  }

 private:
  void add(const ProcessRecord& process, const Event& event) {
    const std::int64_t begin = process.clock.to_local(event.begin), end = process.clock.to_local(event.end);
    switch (event.what) {
      case Happening::kQueued:
        return add_message(process, event, begin, kReady, kReplied);
      case Happening::kLeft:
        return add_message(process, event, begin, kLeft, kReplyLeft);
      case Happening::kArrived:
        return add_message(process, event, begin, kArrived, kReturned);
      case Happening::kUpdate:
        if (process.server) updates_[{event.iteration, event.unit, process.server->value}] = {begin, end};
        if (event.unit == wire::kAllUnits) return;
        facts_.push_back({event.iteration, event.unit, Rank{event.peer}, kBegun, begin});
        facts_.push_back({event.iteration, event.unit, Rank{event.peer}, kUpdated, end});
        [[fallthrough]];
      case Happening::kAggregate:
        facts_.push_back({event.iteration, event.unit, Rank{event.peer}, kTaken, begin});
        return;
      default:
        return;
    }
  }

  // `pushed`: what it means for a gradient, `returned`: for a value.
  void add_message(const ProcessRecord& process, const Event& event, std::int64_t at, Mark pushed, Mark returned) {
    const bool push = event.message == MessageKind::kPush || event.message == MessageKind::kPushes;
    const bool value = event.message == MessageKind::kValue || event.message == MessageKind::kValues;
    if (!push && !value) return;
    // A worker sends gradients and gets values.
    const std::optional<Rank> other = Rank{event.peer};
    const bool at_worker = push != (event.what == Happening::kArrived);
    const auto worker = at_worker ? process.worker : other, server = at_worker ? other : process.server;
    if (!worker || !server) return;
    const bool several = event.message == MessageKind::kPushes || event.message == MessageKind::kValues;
    const std::uint32_t last = several ? event.detail : event.unit;
    for (std::uint32_t unit = event.unit; unit <= last && unit < units_.size(); ++unit) {
      if (units_[unit].server == *server) facts_.push_back({event.iteration, unit, *worker, push ? pushed : returned, at});
    }
  }

  // The update that another worker's gradient completed, or the whole iteration's.
  void find_update(RoundTrip& trip) const {
    if (trip.unit >= units_.size()) return;
    for (const std::uint32_t unit : {trip.unit, wire::kAllUnits}) {
      const auto update = updates_.find({trip.iteration, unit, units_[trip.unit].server.value});
      if (update == updates_.end()) continue;
      trip.at[kBegun] = update->second.begin;
      trip.at[kUpdated] = update->second.end;
      return;
    }
  }

  std::span<const UnitHome> units_;
  std::vector<Fact> facts_;
  std::map<std::tuple<Iteration, std::uint32_t, std::int32_t>, Interval> updates_;  // by iteration, unit and server: the last one
};

}  // namespace

const char* to_string(Stage stage) {
  constexpr std::array<const char*, kStages> kNames = {"egress queue", "wire",        "ingress queue", "aggregation",
                                                       "update",       "until asked", "return queue",  "return wire"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::vector<RoundTrip> round_trips(std::span<const ProcessRecord> processes, std::span<const UnitHome> units) {
  Facts facts(units);
  for (const ProcessRecord& process : processes) facts.add(process);
  return facts.put_together();
}

}  // namespace paceline::timeline
