// What choosing a schedule and choosing collective operations share.
#pragma once

#include <cstdint>
#include <string>

#include "base/amounts.h"
#include "cost/link_fit.h"

namespace paceline::tuning {

// Of a link that nobody could measure.
inline constexpr cost::LinkFit kAssumedLink{.start_up = 200e-6, .bandwidth = {125e6}, .residual = 0};
// For people. A fit may find no start-up at all.
inline std::string words_of(const cost::LinkFit& link) {
  return to_text(link.bandwidth) + (link.start_up > 0
                                        ? fmt::format(" and a start-up of {} for each message", in_time(link.start_up))
                                        : std::string(" and no start-up that shows"));
}
// And how far to trust it. 1: times that lie on no line, so that the largest message alone counts.
inline std::string how_measured(const cost::LinkFit& link) {
  constexpr double kDoubtful = 0.3;
  const char* const when = "measured before the start";
  if (link.residual >= 1) return fmt::format("{}, by its largest message", when);
  if (link.residual <= kDoubtful) return when;
  return fmt::format("{}, its times {:.0f} % off these: was something else running?", when, 100 * link.residual);
}
inline constexpr std::int64_t kParameterBytes = sizeof(float);

}  // namespace paceline::tuning
