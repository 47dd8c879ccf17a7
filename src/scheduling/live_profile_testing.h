// For tests only: a live profile that is told by calls.
#pragma once

#include <optional>
#include <utility>

#include "scheduling/live_profile.h"

namespace paceline::scheduling::testing {

class ToldProfile {
 public:
  template <typename... Arguments>
  explicit ToldProfile(Arguments... arguments) : profile_(std::move(arguments)...) {}

  void on_gate(Layer layer, TimePoint entered, TimePoint opened) {
    profile_.on_event(
        wire::during(entered, opened, {.what = wire::Happening::kGate, .unit = static_cast<std::uint32_t>(layer.index)}));
  }
  void on_forward_done(TimePoint now) { tell(now, wire::Happening::kForwardDone); }
  void on_backward_begun(TimePoint now) { tell(now, wire::Happening::kBackwardBegun); }
  void on_gradient(Layer layer, TimePoint now) { tell(now, wire::Happening::kGradient, static_cast<std::uint32_t>(layer.index)); }
  void on_backward_done(TimePoint now) { tell(now, wire::Happening::kBackwardDone); }
  void on_iteration_done() { tell({}, wire::Happening::kIterationDone); }
  void on_pull_begun(std::uint32_t unit, TimePoint now, std::int32_t server = 0) {
    tell(now, wire::Happening::kReturning, unit, server);
  }
  void on_pulled(std::uint32_t unit, Bytes size, TimePoint now, std::int32_t server = 0) {
    tell(now, wire::Happening::kPulled, unit, server, size);
  }
  void on_round_trip(Duration shortest) { profile_.on_round_trip(shortest); }

  const std::optional<LiveProfile::Plan>& current() const { return profile_.current(); }
  // The newest plan, if it was not seen before.
  std::optional<LiveProfile::Plan> plan() {
    const auto& plan = profile_.current();
    return plan && std::exchange(seen_, plan->number) != plan->number ? plan : std::nullopt;
  }

 private:
  void tell(TimePoint now, wire::Happening what, std::uint32_t unit = 0, std::int32_t server = -1, Bytes size = {}) {
    profile_.on_event(wire::at(now, {.what = what, .peer = server, .unit = unit, .bytes = size.count}));
  }

  LiveProfile profile_;
  std::int64_t seen_ = 0;
};

}  // namespace paceline::scheduling::testing
